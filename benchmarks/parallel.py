"""Cost and gain of training in several processes (MPI ranks).

    python benchmarks/parallel.py             # both, on two cores: some minutes
    python benchmarks/parallel.py --report    # the tables from earlier measurements

First, the mean of one vector over two ranks, computed in three ways: by a callback
inside the compiled step (jaxrl's way), with the step split at the gradient, and by
JAX's own processes over gloo; and MPI's part of it alone. Then, whole runs with one and
two ranks of one thread each, in turns. From both, `--report` predicts the speed with
more ranks, as explained in SCALING.md. Results are in results/parallel.csv.
"""

import argparse
import csv
import itertools
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import records

from jaxrl.processes import mpirun
from jaxrl.processes import ranks as processes

HOPPER = (
    "--env Hopper-v4 --batch_size 256 --steps 2500 --steps_per_epoch 500 "
    "--start_steps 500 --update_after 500 --num_test_episodes 0"
)
RESULTS = Path(__file__).parent / "results" / "parallel.csv"
SIZES = (1_000, 6_000, 70_000, 300_000)
MEANS = 50  # per compiled scan
RUNS = {
    "ppo, 80 full-batch passes": "ppo --env HalfCheetah-v4 --preset spinup "
    "--target_kl inf --steps 80000",
    "ppo, 10 passes of 32 minibatches": "ppo --env HalfCheetah-v4 --steps 81920 "
    "--target_kl inf",
    "trpo": "trpo --env HalfCheetah-v4 --preset spinup --steps 80000",
    "vpg": "vpg --env HalfCheetah-v4 --preset spinup --steps 80000",
    "sac, batch 256": f"sac {HOPPER}",
    "td3, batch 256": f"td3 {HOPPER}",
    "ddpg, batch 256": f"ddpg {HOPPER}",
}


# One mean; these functions run in each rank


def microseconds(repeat, count: int) -> float:
    """Per mean, the median of seven repetitions of `count` means."""
    repeat()  # compiles
    times = []
    for _ in range(7):
        start = time.perf_counter()
        repeat()
        times.append((time.perf_counter() - start) / count * 1e6)
    return statistics.median(times)


def callback(size: int) -> float:
    import jax
    import jax.numpy as jnp

    from jaxrl.parallel import mpi

    def repeated(x):
        pmean = mpi.ordered_pmean()
        step = lambda x, _: (pmean(x) * 1.0001, None)  # noqa: E731
        return jax.lax.scan(step, x, None, length=MEANS)[0]

    scan = jax.jit(repeated)
    x = jnp.ones(size)
    return microseconds(lambda: scan(x).block_until_ready(), MEANS)


def split(size: int) -> float:
    import jax
    import jax.numpy as jnp
    import numpy as np

    from jaxrl.parallel import mpi

    step = jax.jit(lambda x: x * 1.0001)
    x = jnp.ones(size)

    def repeat():
        y = x
        for _ in range(MEANS):
            y = step(jnp.asarray(mpi.allreduce_mean(np.asarray(y))))
        y.block_until_ready()

    return microseconds(repeat, MEANS)


def bare(size: int) -> float:
    """MPI's Allreduce alone."""
    import numpy as np
    from mpi4py import MPI

    x, total = np.ones(size, np.float32), np.empty(size, np.float32)
    allreduce = MPI.COMM_WORLD.Allreduce
    return microseconds(lambda: [allreduce(x, total) for _ in range(MEANS)], MEANS)


def gloo(size: int) -> float:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    where = f"localhost:{os.environ['GLOO_PORT']}"
    jax.distributed.initialize(where, processes.size(), processes.rank())

    def body(x, _):
        return jax.lax.pmean(x, "i") * 1.0001, None

    scan = jax.pmap(lambda x: jax.lax.scan(body, x, None, length=MEANS)[0], "i")
    x = jnp.ones((1, size))
    return microseconds(lambda: scan(x).block_until_ready(), MEANS)


WAYS = {way.__name__: way for way in (callback, split, gloo, bare)}


def cost(way: str, size: int) -> float:
    """Microseconds per mean over two ranks."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    done = subprocess.run(
        [
            mpirun.mpirun(),
            "-n",
            "2",
            sys.executable,
            __file__,
            "--rank",
            way,
            str(size),
        ],
        env=mpirun.environment_for(threads=1) | {"GLOO_PORT": port},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(f"{way} {size} failed: {done.stderr[-800:]}")
    return float(done.stdout.split()[-1])


# Whole runs


class Speed(NamedTuple):
    """Of a run after its first two epochs, which compile."""

    steps: float  # per second
    acting: float  # seconds per step in this rank's policy and environments
    updating: float  # seconds per step in updates


def train(settings: str, ranks: int) -> Speed:
    """Run `jaxrl train` once."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "jaxrl", "train", *settings.split()]
        command += ["--exp_name", "x", "--out", out, "--checkpoint_every", "0"]
        command += ["--num_procs", str(ranks)]
        done = subprocess.run(
            command,
            env=mpirun.environment_for(threads=1),
            capture_output=True,
            text=True,
            timeout=1200,
        )
        if done.returncode:
            raise RuntimeError(f"{settings} failed: {done.stderr[-800:]}")
        progress = Path(out) / "x" / "x_s0" / "progress.csv"
        rows = list(csv.DictReader(progress.read_text().splitlines()))[2:]
    columns = {name: [float(row[name]) for row in rows] for name in rows[0]}
    steps = columns["TotalEnvInteracts"][-1] - columns["TotalEnvInteracts"][0]
    acting = sum(columns["EnvSeconds"][1:]) + sum(columns["ActSeconds"][1:])
    updating = sum(columns["UpdateSeconds"][1:])
    # The median epoch, because other load on the machine may delay any single one.
    times = [after - before for before, after in itertools.pairwise(columns["Time"])]
    seconds = statistics.median(times) * len(times)
    return Speed(steps / seconds, acting / steps, updating / steps)


def keep(kind: str, name: str, parameter: int, value: float) -> None:
    row = {"kind": kind, "name": name, "parameter": parameter, "value": f"{value:.6g}"}
    records.append(RESULTS, row)
    print(f"{kind} {name} {parameter}: {value:.6g}", flush=True)


def measure(rounds: int, only: str) -> None:
    for _ in range(rounds):
        for size in SIZES:
            for way in WAYS:
                if only in f"mean {way}":
                    keep("mean", way, size, cost(way, size))
        for name, settings in RUNS.items():
            if only in f"run {name}":
                # Kept once both have finished: the report pairs them by round.
                speeds = {ranks: train(settings, ranks) for ranks in (1, 2)}
                for ranks, speed in speeds.items():
                    for kind, value in speed._asdict().items():
                        keep(kind, name, ranks, value)


# The tables


Rounds = dict[tuple[str, str, int], list[float]]  # by kind, name and parameter
Medians = dict[tuple[str, str, int], float]


def known() -> Rounds:
    rounds: Rounds = {}
    for row in records.read(RESULTS):
        key = (row["kind"], row["name"], int(row["parameter"]))
        rounds.setdefault(key, []).append(float(row["value"]))
    return rounds


def medians() -> Medians:
    return {key: statistics.median(values) for key, values in known().items()}


def report() -> None:
    means(known())
    print()
    runs(known())
    for network in NETWORKS:
        print()
        scaling(network)


def means(rounds: Rounds) -> None:
    """Prints the cost of a mean in each way."""
    print(f"| µs per mean of | {' | '.join(f'{size:,}' for size in SIZES)} |")
    print("| --- " * (1 + len(SIZES)) + "|")
    for way in WAYS:
        costs = [rounds.get(("mean", way, size)) for size in SIZES]
        cells = [f"{statistics.median(cost):.0f}" if cost else "" for cost in costs]
        print(f"| {way} | {' | '.join(cells)} |")


def runs(rounds: Rounds) -> None:
    """Prints the speed of whole runs with one rank and two."""
    print("| steps/s | one rank | two ranks | ratio | ratios of the rounds |")
    print("| --- | --- | --- | --- | --- |")
    for name in RUNS:
        one, two = (rounds.get(("steps", name, ranks), []) for ranks in (1, 2))
        if one and two:
            ratios = [after / before for before, after in zip(one, two, strict=True)]
            cells = [f"{statistics.median(values):,.0f}" for values in (one, two)]
            cells.append(f"{statistics.median(ratios):.2f} x")
            cells.append(", ".join(f"{ratio:.2f}" for ratio in sorted(ratios)))
            print(f"| {name} | {' | '.join(cells)} |")


# Prediction for more ranks


class Network(NamedTuple):
    """Between hosts; assumed, not measured."""

    name: str
    latency: float  # seconds per message
    rate: float  # bytes per second


NETWORKS = (
    Network("10 Gbit/s Ethernet", 30e-6, 1.25e9),
    Network("100 Gbit/s InfiniBand", 2e-6, 12.5e9),
)
# Per update: the means as (count, floats in each), and the environment steps between
# two updates. Networks: (64, 64) on HalfCheetah on-policy, (256, 256) on Hopper
# off-policy.
PI, V, Q, ACTOR = 5_708, 5_377, 69_889, 70_406
UPDATES: dict[str, tuple[list[tuple[float, int]], int]] = {
    "ppo, 80 full-batch passes": ([(80, PI + V)], 4000),
    "ppo, 10 passes of 32 minibatches": ([(320, PI + V), (20, 1)], 2048),
    "trpo": ([(12, PI), (80, V)], 4000),
    "vpg": ([(1, PI), (80, V)], 4000),
    "sac, batch 256": ([(1, 2 * Q), (1, ACTOR), (1, 1)], 1),
    "td3, batch 256": ([(1, 2 * Q), (0.5, ACTOR), (0.5, 1)], 1),
    "ddpg, batch 256": ([(1, Q), (1, ACTOR)], 1),
}
RANKS = (8, 64, 512)
LARGER = 16  # times the parameters: layers four times as wide


def seconds_per_mean(
    middle: Medians, floats: int, ranks: int, network: Network
) -> float:
    """The callback's own time, as measured, plus a ring's or tree's on the network."""
    own = [middle["mean", "callback", n] - middle["mean", "bare", n] for n in SIZES]
    slope = max((own[-1] - own[0]) / (SIZES[-1] - SIZES[0]), 0)
    callback = 1e-6 * (own[0] + slope * floats)
    data = 2 * 4 * floats * (ranks - 1) / ranks / network.rate
    return callback + data + 2 * network.latency * math.ceil(math.log2(ranks))


def scaling(network: Network) -> None:
    """Prints the predicted speed with more ranks."""
    middle = medians()
    heads = " | ".join(f"{ranks} ranks" for ranks in RANKS)
    print(f"| {network.name} | one rank | {heads} | means take half the time from |")
    print("| --- " * (3 + len(RANKS)) + "|")
    for name, larger in itertools.product(UPDATES, (1, LARGER)):
        if ("steps", name, 1) in middle:
            size = f", {larger} x the parameters" if larger > 1 else ""
            cells = predict(middle, name, larger, network)
            print(f"| {name}{size} | {' | '.join(cells)} |")


def predict(middle: Medians, name: str, larger: int, network: Network) -> list[str]:
    """Steps per second with more ranks, with networks `larger` times as large."""
    means, steps = UPDATES[name]
    work = middle["acting", name, 1] + larger * middle["updating", name, 1]

    def waiting(ranks: int) -> float:
        costs = (
            count * seconds_per_mean(middle, floats * larger, ranks, network)
            for count, floats in means
        )
        return sum(costs) / steps

    cells = [f"{1 / work:,.0f}"]
    for ranks in RANKS:
        total = work / ranks + waiting(ranks)
        cells.append(f"{1 / total:,.0f} ({waiting(ranks) / total:.0%} in means)")
    half = next((r for r in range(2, 4096) if waiting(r) > work / r), None)
    return [*cells, f"{half} ranks"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rank", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--report", action="store_true", help="only print the tables")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds [3]")
    parser.add_argument(
        "--only",
        default="",
        help="measurements whose name contains this, e.g. 'run ppo'",
    )
    given = parser.parse_args()
    if given.rank:
        way, size = given.rank
        value = WAYS[way](int(size))
        if processes.rank() == 0:
            print(value, flush=True)
        return
    if not given.report:
        measure(given.rounds, given.only)
    report()


if __name__ == "__main__":
    main()
