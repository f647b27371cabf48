"""Train in JAX environments with the default settings until a return is reached.

    python benchmarks/learn_jax.py                    # all tasks: half an hour
    python benchmarks/learn_jax.py --only CartPole

Needs the extras gymnax, brax and playground. Each run is a separate `jaxrl train
--stop_return` process with one thread on one core and nothing compiled before. An
epoch's return is the mean of its greedy test episodes, or of its training episodes if
there are none. The time is that of the whole command: starting Python, compiling,
training and saving. Finished runs are written to results/learn_jax.csv and not
repeated. A failed run is reported and not written; the exit code is then 1.
"""

import argparse
import csv
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import records
from learn import FailedRun, summarize

RESULTS = Path(__file__).parent / "results" / "learn_jax.csv"


class Task(NamedTuple):
    algo: str
    env: str
    target: float
    steps: int = 0
    """At most; 0: as many as the defaults say."""
    seeds: int = 3
    seconds: float = float("inf")
    """By the clock, at most."""

    @property
    def name(self) -> str:
        return f"{self.algo} {self.env} {self.target:g}"


CARTPOLE = ("gymnax/CartPole-v1", "phys2d/CartPole-v1")
PENDULUM = ("gymnax/Pendulum-v1", "phys2d/Pendulum-v0")
TASKS = [
    *(Task("ppo", env, 475, seeds=5, seconds=10) for env in CARTPOLE),
    *(Task(algo, env, 475) for algo in ("trpo", "vpg") for env in CARTPOLE),
    *(Task(algo, env, -200) for algo in ("sac", "td3", "ddpg") for env in PENDULUM),
    Task("ppo", "brax/inverted_pendulum", 950),
    Task("ppo", "playground/CartpoleBalance", 950),
]


class Trained(NamedTuple):
    """One run; seconds are of its whole command."""

    best: float
    steps: int
    seconds: float
    cpu_seconds: float


def train(task: Task, seed: int) -> Trained:
    """Train once, until the target is reached."""
    threads = dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "jaxrl", "train", task.algo]
        command += ["--env", task.env, "--seed", str(seed), "--out", out]
        command += ["--stop_return", str(task.target), "--exp_name", "learn"]
        command += ["--steps", str(task.steps)] if task.steps else []
        # Also where compiled programs are kept.
        own = os.environ | threads | {"XDG_CACHE_HOME": out}
        start, before = time.perf_counter(), _cpu_seconds()
        done = subprocess.run(command, env=own, capture_output=True, text=True)
        seconds, used = time.perf_counter() - start, _cpu_seconds() - before
        if done.returncode:
            raise FailedRun(f"exit code {done.returncode}: {done.stderr[-500:]}")
        progress = Path(out) / "learn" / f"learn_s{seed}" / "progress.csv"
        rows = list(csv.DictReader(progress.read_text().splitlines()))
    steps = int(float(rows[-1]["TotalEnvInteracts"]))
    return Trained(summarize(rows, steps)[0], steps, seconds, used)


def _cpu_seconds() -> float:
    """Of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def finished() -> dict[tuple[str, int], Trained]:
    return {
        (row["task"], int(row["seed"])): Trained(
            float(row["best"]),
            int(row["steps"]),
            float(row["seconds"]),
            float(row["cpu_seconds"]),
        )
        for row in records.read(RESULTS)
    }


def run(tasks: list[Task]) -> bool:
    """Train what is not in the results yet; whether all runs succeeded."""
    known, good = finished(), True
    most = max(task.seeds for task in tasks)
    pairs = [(t, s) for s in range(most) for t in tasks if s < t.seeds]
    for task, seed in pairs:
        if (task.name, seed) in known:
            continue
        load = os.getloadavg()[0]
        try:
            trained = train(task, seed)
        except FailedRun as failure:
            good = False
            print(f"{task.name} seed {seed} failed: {failure}", file=sys.stderr)
            continue
        shown = {name: round(x, 1) for name, x in trained._asdict().items()}
        row = {"task": task.name, "seed": seed} | shown | {"load": f"{load:.1f}"}
        records.append(RESULTS, row)
        print(f"{task.name} seed {seed}: {shown}", flush=True)
    return good


def report(tasks: list[Task]) -> bool:
    """Print the table; whether all runs so far reached their target in time."""
    known, good = finished(), True
    print("| algorithm | environment | target | reached | steps | seconds | of CPU |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for task in tasks:
        pairs = [(task.name, seed) for seed in range(task.seeds)]
        runs = [known[pair] for pair in pairs if pair in known]
        if not runs:
            continue
        reached = sum(one.best >= task.target for one in runs)
        good &= reached == len(runs)
        steps, seconds, used = (
            statistics.median(x) for x in list(zip(*runs, strict=True))[1:]
        )
        good &= seconds <= task.seconds
        late = "" if seconds <= task.seconds else f" (missed: {task.seconds:g})"
        cells = [task.algo, task.env, f"{task.target:g}", f"{reached} of {len(runs)}"]
        cells += [f"{steps:,.0f}", f"{seconds:.1f}{late}", f"{used:.1f}"]
        print(f"| {' | '.join(cells)} |")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--core", type=int, default=0, help="core that is used [0]")
    parser.add_argument("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    tasks = [task for task in TASKS if arguments.only in task.name]
    if not tasks:
        names = "\n  ".join(task.name for task in TASKS)
        print(f"no task's name contains {arguments.only!r}; the tasks are\n  {names}")
        return 2
    if not arguments.report:
        os.sched_setaffinity(0, {arguments.core})
    succeeded = arguments.report or run(tasks)
    reached = report(tasks)
    return 0 if succeeded and reached else 1


if __name__ == "__main__":
    raise SystemExit(main())
