"""Train every algorithm with its default settings on tasks with a return to reach.

    python benchmarks/learn.py                          # all tasks: hours
    python benchmarks/learn.py --only CartPole --jobs 2

Each run is a separate `jaxrl train` process with one thread. An epoch's return is the
mean of its greedy test episodes, or of its training episodes if there are none. When a
run finishes, its best epoch and the mean of its last five are written to
results/learn.csv; runs that are in it are skipped. A failed run is reported and not
written; the exit code is then 1.
"""

import argparse
import concurrent.futures
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import records

RESULTS = Path(__file__).parent / "results" / "learn.csv"


class Task(NamedTuple):
    algo: str
    env: str
    steps: int
    target: float
    seeds: int = 5
    by_last: bool = False
    """Compare the mean of all seeds' last five epochs; else each seed's best epoch."""

    @property
    def name(self) -> str:
        return f"{self.algo} {self.env} {self.steps}"


class FailedRun(Exception):
    """A run that ended with an exit code other than 0, or without any return."""


TASKS = [
    Task("ppo", "CartPole-v1", 100_000, 475),
    Task("trpo", "CartPole-v1", 100_000, 475),
    Task("vpg", "CartPole-v1", 200_000, 400),
    *(Task(algo, "Pendulum-v1", 20_000, -200) for algo in ("ddpg", "td3", "sac")),
    *(Task(algo, "InvertedPendulum-v4", 50_000, 950) for algo in ("td3", "sac")),
    Task("sac", "HalfCheetah-v4", 100_000, 5000, 3, by_last=True),
    Task("td3", "HalfCheetah-v4", 100_000, 4300, 3, by_last=True),
    Task("ddpg", "HalfCheetah-v4", 100_000, 3000, 3, by_last=True),
    # Spinning Up's PyTorch PPO on Hopper-v3 has a mean of 517.45 at 300,000 steps.
    Task("ppo", "Hopper-v4", 300_000, 517.45, 3, by_last=True),
]


def train(task: Task, seed: int) -> tuple[float, float]:
    """Train once; the return of the best epoch, and the mean of the last five."""
    threads = dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "jaxrl", "train", task.algo]
        command += ["--env", task.env, "--seed", str(seed)]
        command += ["--steps", str(task.steps), "--out", out, "--exp_name", "learn"]
        done = subprocess.run(
            command, env=os.environ | threads, capture_output=True, text=True
        )
        if done.returncode:
            raise FailedRun(f"exit code {done.returncode}: {done.stderr[-500:]}")
        progress = Path(out) / "learn" / f"learn_s{seed}" / "progress.csv"
        rows = list(csv.DictReader(progress.read_text().splitlines()))
    return summarize(rows, task.steps)


def summarize(rows: list[dict[str, str]], steps: int) -> tuple[float, float]:
    """The best epoch's return and the mean of the last five, within `steps` steps."""
    test, training = "AverageTestEpRet", "AverageEpRet"
    column = test if rows and test in rows[0] else training
    within = [row for row in rows if float(row["TotalEnvInteracts"]) <= steps]
    returns = [float(row[column]) for row in within if row[column]]
    if not returns:
        raise FailedRun("no epoch has a return")
    return max(returns), statistics.mean(returns[-5:])


def finished() -> dict[tuple[str, int], tuple[float, float]]:
    return {
        (row["task"], int(row["seed"])): (float(row["best"]), float(row["last"]))
        for row in records.read(RESULTS)
    }


def run(tasks: list[Task], jobs: int) -> bool:
    """Train what is not in the results yet; whether all runs succeeded."""
    known, good = finished(), True
    waiting = [
        (t, s) for t in tasks for s in range(t.seeds) if (t.name, s) not in known
    ]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(train, *pair): pair for pair in waiting}
        for future in concurrent.futures.as_completed(futures):
            task, seed = futures[future]
            try:
                best, last = (f"{value:.1f}" for value in future.result())
            except FailedRun as failure:
                good = False
                print(f"{task.name} seed {seed} failed: {failure}", file=sys.stderr)
                continue
            row = {"task": task.name, "seed": seed, "best": best, "last": last}
            records.append(RESULTS, row)
            print(f"{task.name} seed {seed}: best {best}, last {last}", flush=True)
    return good


def returns_of(task: Task, known: dict) -> list[float] | None:
    """The return of each seed; None if one has no result yet."""
    pairs = [(task.name, seed) for seed in range(task.seeds)]
    if any(pair not in known for pair in pairs):
        return None
    return [known[pair][1 if task.by_last else 0] for pair in pairs]


def reached(task: Task, returns: list[float]) -> float:
    return statistics.mean(returns) if task.by_last else min(returns)


def report(tasks: list[Task]) -> bool:
    """Print the table; whether all tasks with all their seeds reached the target."""
    known, good = finished(), True
    print("| algorithm | environment | steps | target | reached | by seed |")
    print("| --- | --- | --- | --- | --- | --- |")
    for task in tasks:
        if (returns := returns_of(task, known)) is None:
            continue
        result = reached(task, returns)
        good &= result >= task.target
        how = "mean, last 5 epochs" if task.by_last else "worst seed, best epoch"
        verdict = "" if result >= task.target else " (missed)"
        seeds = ", ".join(f"{value:.0f}" for value in returns)
        cells = (task.algo, task.env, f"{task.steps:,}", f"{task.target:g}")
        print(f"| {' | '.join(cells)} | {result:.0f}{verdict}, {how} | {seeds} |")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count(),
        help="number of runs at a time (default: number of CPUs)",
    )
    parser.add_argument("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    tasks = [task for task in TASKS if arguments.only in task.name]
    if not tasks:
        names = "\n  ".join(task.name for task in TASKS)
        print(f"no task's name contains {arguments.only!r}; the tasks are\n  {names}")
        return 2
    succeeded = arguments.report or run(tasks, arguments.jobs)
    all_reached = report(tasks)
    return 0 if succeeded and all_reached else 1


if __name__ == "__main__":
    raise SystemExit(main())
