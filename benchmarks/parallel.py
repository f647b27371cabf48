"""What it costs to learn together, and what is gained by it.

    python benchmarks/parallel.py             # both, on two cores: some minutes
    python benchmarks/parallel.py --report    # the tables from what was measured

First the mean of one vector over two ranks, in each way that it could be made: by a
callback inside the compiled step (which jaxrl does), with the step split in two where
the gradient is, and by JAX's own processes over gloo. Then whole runs with one and two
ranks of one thread each, in turns. From both follows what more ranks would give, which
`--report` reckons out as SCALING.md says.
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

from jaxrl.processes import mpirun
from jaxrl.processes import ranks as processes

RESULTS = Path(__file__).parent / "results" / "parallel.csv"
SIZES = (1_000, 6_000, 70_000, 300_000)
MEANS = 50  # in one compiled scan
RUNS = {
    "ppo, 80 full-batch passes": "ppo --env HalfCheetah-v4 --preset spinup "
    "--target_kl inf --steps 80000",
    "ppo, 10 passes of 32 minibatches": "ppo --env HalfCheetah-v4 --steps 81920 "
    "--target_kl inf",
    "trpo": "trpo --env HalfCheetah-v4 --preset spinup --steps 80000",
    "vpg": "vpg --env HalfCheetah-v4 --preset spinup --steps 80000",
    "sac, batch 256": "sac --env Hopper-v4 --steps 2500 --steps_per_epoch 500 "
    "--start_steps 500 --update_after 500 --num_test_episodes 0",
    "td3, batch 256": "td3 --env Hopper-v4 --steps 2500 --steps_per_epoch 500 "
    "--start_steps 500 --update_after 500 --num_test_episodes 0",
    "ddpg, batch 256": "ddpg --env Hopper-v4 --steps 2500 --steps_per_epoch 500 "
    "--start_steps 500 --update_after 500 --num_test_episodes 0",
}


# One mean, in a process that is a rank


def microseconds(repeat, count: int) -> float:
    repeat()  # compiles
    found = []
    for _ in range(7):
        start = time.perf_counter()
        repeat()
        found.append((time.perf_counter() - start) / count * 1e6)
    return statistics.median(found)


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
    """MPI's part of it."""
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
    """Microseconds a mean over two ranks."""
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


class Pace(NamedTuple):
    """Of a run after its first two epochs, which compile."""

    steps: float  # a second
    living: float  # seconds a step, of this rank's acting and environments
    learning: float  # seconds a step in updates


def pace(settings: str, ranks: int) -> Pace:
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
    living = sum(columns["EnvSeconds"][1:]) + sum(columns["ActSeconds"][1:])
    learning = sum(columns["UpdateSeconds"][1:])
    # The median epoch: a neighbour of the machine may hold up any single one.
    times = [after - before for before, after in itertools.pairwise(columns["Time"])]
    seconds = statistics.median(times) * len(times)
    return Pace(steps / seconds, living / steps, learning / steps)


def keep(kind: str, name: str, parameter: int, value: float) -> None:
    begun = RESULTS.exists()
    with RESULTS.open("a") as file:
        if not begun:
            file.write("kind,name,parameter,value\n")
        file.write(f'{kind},"{name}",{parameter},{value:.6g}\n')
    print(f"{kind} {name} {parameter}: {value:.6g}", flush=True)


def measure(rounds: int, only: str) -> None:
    for _ in range(rounds):
        for size in SIZES:
            for way in WAYS:
                if only in f"mean {way}":
                    keep("mean", way, size, cost(way, size))
        for name, settings in RUNS.items():
            for ranks in (1, 2):
                if only in f"run {name}":
                    found = pace(settings, ranks)
                    for kind, value in found._asdict().items():
                        keep(kind, name, ranks, value)


# What was found


Found = dict[tuple[str, str, int], list[float]]  # round by round


def known() -> Found:
    rows = csv.DictReader(RESULTS.read_text().splitlines())
    found: Found = {}
    for row in rows:
        key = (row["kind"], row["name"], int(row["parameter"]))
        found.setdefault(key, []).append(float(row["value"]))
    return found


def report() -> None:
    rounds = known()
    found = {key: statistics.median(values) for key, values in rounds.items()}
    print(f"| µs a mean of | {' | '.join(f'{size:,}' for size in SIZES)} |")
    print("| --- " * (1 + len(SIZES)) + "|")
    for way in WAYS:
        costs = [found.get(("mean", way, size)) for size in SIZES]
        cells = ["" if cost is None else f"{cost:.0f}" for cost in costs]
        print(f"| {way} | {' | '.join(cells)} |")
    print("\n| steps/s | one rank | two ranks | ratio | of rounds |")
    print("| --- | --- | --- | --- | --- |")
    for name in RUNS:
        one, two = (rounds.get(("steps", name, ranks), []) for ranks in (1, 2))
        if one and two:
            ratios = [after / before for before, after in zip(one, two, strict=True)]
            cells = [f"{statistics.median(values):,.0f}" for values in (one, two)]
            cells.append(f"{statistics.median(ratios):.2f} x")
            cells.append(", ".join(f"{ratio:.2f}" for ratio in sorted(ratios)))
            print(f"| {name} | {' | '.join(cells)} |")
    for network in NETWORKS:
        scaling(found, network)


# What more ranks would give


class Network(NamedTuple):
    """Between hosts; assumed, not measured."""

    name: str
    latency: float  # seconds a message
    rate: float  # bytes a second


NETWORKS = (
    Network("10 Gbit/s Ethernet", 30e-6, 1.25e9),
    Network("100 Gbit/s InfiniBand", 2e-6, 12.5e9),
)
# Means in an update by their floats, with (64, 64) on HalfCheetah on-policy and with
# (256, 256) on Hopper off-policy; and the steps between two updates.
PI, V, Q, ACTOR = 5_708, 5_377, 69_889, 70_406
LEARNING: dict[str, tuple[list[tuple[float, int]], int]] = {
    "ppo, 80 full-batch passes": ([(80, PI + V)], 4000),
    "ppo, 10 passes of 32 minibatches": ([(320, PI + V), (20, 1)], 2048),
    "trpo": ([(12, PI), (80, V)], 4000),
    "vpg": ([(1, PI), (80, V)], 4000),
    "sac, batch 256": ([(1, 2 * Q), (1, ACTOR), (1, 1)], 1),
    "td3, batch 256": ([(1, 2 * Q), (0.5, ACTOR), (0.5, 1)], 1),
    "ddpg, batch 256": ([(1, Q), (1, ACTOR)], 1),
}
RANKS = (8, 64, 512)
LARGER = 16  # four times as wide


def seconds_a_mean(found: dict, floats: int, ranks: int, network: Network) -> float:
    """The callback's own time, as measured, and a ring's or a tree's on the network."""
    own = [found["mean", "callback", n] - found["mean", "bare", n] for n in SIZES]
    slope = max((own[-1] - own[0]) / (SIZES[-1] - SIZES[0]), 0)
    callback = 1e-6 * (own[0] + slope * floats)
    data = 2 * 4 * floats * (ranks - 1) / ranks / network.rate
    return callback + data + 2 * network.latency * math.ceil(math.log2(ranks))


def scaling(found: dict, network: Network) -> None:
    heads = " | ".join(f"{ranks} ranks" for ranks in RANKS)
    print(f"\n| {network.name} | one rank | {heads} | means are half from |")
    print("| --- " * (3 + len(RANKS)) + "|")
    for name, larger in itertools.product(LEARNING, (1, LARGER)):
        if ("steps", name, 1) in found:
            size = f", {larger} x the parameters" if larger > 1 else ""
            cells = reckoned(found, name, larger, network)
            print(f"| {name}{size} | {' | '.join(cells)} |")


def reckoned(found: dict, name: str, larger: int, network: Network) -> list[str]:
    """Steps a second with more ranks, of networks so many times as large."""
    means, steps = LEARNING[name]
    work = found["living", name, 1] + larger * found["learning", name, 1]

    def waiting(ranks: int) -> float:
        costs = (
            count * seconds_a_mean(found, floats * larger, ranks, network)
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
    parser.add_argument("--rounds", type=int, default=3, help="turns [3]")
    parser.add_argument("--only", default="", help="part of a name, as 'run ppo'")
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
