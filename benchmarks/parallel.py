"""What it costs to learn together, and what is gained by it.

    python benchmarks/parallel.py             # both, on two cores: some minutes
    python benchmarks/parallel.py --report    # the tables from what was measured

First the mean of one vector over two ranks, in each way that it could be made: by a
callback inside the compiled step (which jaxrl does), with the step split in two where
the gradient is, and by JAX's own processes over gloo. Then whole runs with one and two
ranks of one thread each, in turns. From both follows what more ranks would give.
"""

import argparse
import csv
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jaxrl.parallel import launch

RESULTS = Path(__file__).parent / "results" / "parallel.csv"
SIZES = (1_000, 6_000, 70_000, 300_000)
MEANS = 50  # in one compiled scan
RUNS = {
    "ppo, 80 full-batch passes": "ppo --env HalfCheetah-v4 --preset spinup "
    "--target_kl inf --steps 40000",
    "ppo, 10 passes of 32 minibatches": "ppo --env HalfCheetah-v4 --steps 40960 "
    "--target_kl inf",
    "trpo": "trpo --env HalfCheetah-v4 --preset spinup --steps 40000",
    "vpg": "vpg --env HalfCheetah-v4 --preset spinup --steps 40000",
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

    def body(x, _):
        return mpi.pmean(x) * 1.0001, None

    scan = jax.jit(lambda x: jax.lax.scan(body, x, None, length=MEANS)[0])
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

    from jaxrl.parallel import mpi

    x = np.ones(size, np.float32)
    return microseconds(lambda: [mpi.allreduce_sum(x) for _ in range(MEANS)], MEANS)


def gloo(size: int) -> float:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    where = f"localhost:{os.environ['GLOO_PORT']}"
    jax.distributed.initialize(where, launch.size(), launch.rank())

    def body(x, _):
        return jax.lax.pmean(x, "i") * 1.0001, None

    scan = jax.pmap(lambda x: jax.lax.scan(body, x, None, length=MEANS)[0], "i")
    x = jnp.ones((1, size))
    return microseconds(lambda: scan(x).block_until_ready(), MEANS)


WAYS = {way.__name__: way for way in (callback, split, gloo, bare)}


def environment() -> dict[str, str]:
    known = os.environ | launch.OPEN_MPI | dict.fromkeys(launch.AS_ROOT, "1")
    return known | dict.fromkeys(launch.THREADS, "1")


def cost(way: str, size: int) -> float:
    """Microseconds a mean over two ranks."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    mpirun = Path(sys.executable).parent / "mpirun"
    done = subprocess.run(
        [mpirun, "-n", "2", sys.executable, __file__, "--rank", way, str(size)],
        env=environment() | {"GLOO_PORT": port},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(f"{way} {size} failed: {done.stderr[-800:]}")
    return float(done.stdout.split()[-1])


# Whole runs


def speed(settings: str, ranks: int) -> float:
    """Steps a second after the first two epochs, which compile."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "jaxrl", "train", *settings.split()]
        command += ["--exp_name", "x", "--out", out, "--checkpoint_every", "0"]
        command += ["--num_procs", str(ranks)]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=1200
        )
        if done.returncode:
            raise RuntimeError(f"{settings} failed: {done.stderr[-800:]}")
        progress = Path(out) / "x" / "x_s0" / "progress.csv"
        rows = list(csv.DictReader(progress.read_text().splitlines()))[2:]
    steps = float(rows[-1]["TotalEnvInteracts"]) - float(rows[0]["TotalEnvInteracts"])
    return steps / (float(rows[-1]["Time"]) - float(rows[0]["Time"]))


def keep(kind: str, name: str, parameter: int, value: float) -> None:
    begun = RESULTS.exists()
    with RESULTS.open("a") as file:
        if not begun:
            file.write("kind,name,parameter,value\n")
        file.write(f'{kind},"{name}",{parameter},{value:.1f}\n')
    print(f"{kind} {name} {parameter}: {value:.1f}", flush=True)


def measure(rounds: int, only: str) -> None:
    for _ in range(rounds):
        for size in SIZES:
            for way in WAYS:
                if only in f"mean {way}":
                    keep("mean", way, size, cost(way, size))
        for name, settings in RUNS.items():
            for ranks in (1, 2):
                if only in f"run {name}":
                    keep("run", name, ranks, speed(settings, ranks))


# What was found


def known() -> dict[tuple[str, str, int], float]:
    """The median of each."""
    rows = csv.DictReader(RESULTS.read_text().splitlines())
    found: dict[tuple[str, str, int], list[float]] = {}
    for row in rows:
        key = (row["kind"], row["name"], int(row["parameter"]))
        found.setdefault(key, []).append(float(row["value"]))
    return {key: statistics.median(values) for key, values in found.items()}


def report() -> None:
    found = known()
    print(f"| µs a mean of | {' | '.join(f'{size:,}' for size in SIZES)} |")
    print("| --- " * (1 + len(SIZES)) + "|")
    for way in WAYS:
        costs = [found.get(("mean", way, size)) for size in SIZES]
        cells = ["" if cost is None else f"{cost:.0f}" for cost in costs]
        print(f"| {way} | {' | '.join(cells)} |")
    print("\n| steps/s | one rank | two ranks | ratio |")
    print("| --- | --- | --- | --- |")
    for name in RUNS:
        pair = [found.get(("run", name, ranks)) for ranks in (1, 2)]
        if all(pair):
            one, two = pair
            print(f"| {name} | {one:,.0f} | {two:,.0f} | {two / one:.2f} x |")


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
        if launch.rank() == 0:
            print(value, flush=True)
        return
    if not given.report:
        measure(given.rounds, given.only)
    report()


if __name__ == "__main__":
    main()
