"""Does it learn? Every algorithm with its defaults, on tasks with a mark to reach.

    python benchmarks/learn.py                          # all tasks: hours
    python benchmarks/learn.py --only CartPole --jobs 2

Each run is a `jaxrl train` of its own with one thread. An epoch's return is the mean of
its greedy test episodes, or where there are none of the training's. The best epoch and
the mean of the last five are written to the results as soon as a run ends; what stands
there is not run again.
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

RESULTS = Path(__file__).parent / "results" / "learn.csv"


class Task(NamedTuple):
    algo: str
    env: str
    steps: int
    mark: float
    seeds: int = 5
    last: bool = False
    """Judged by the last five epochs and the mean of seeds; else each by its best."""

    @property
    def name(self) -> str:
        return f"{self.algo} {self.env} {self.steps}"


TASKS = [
    Task("ppo", "CartPole-v1", 100_000, 475),
    Task("trpo", "CartPole-v1", 100_000, 475),
    Task("vpg", "CartPole-v1", 200_000, 400),
    *(Task(algo, "Pendulum-v1", 20_000, -200) for algo in ("ddpg", "td3", "sac")),
    *(Task(algo, "InvertedPendulum-v4", 50_000, 950) for algo in ("td3", "sac")),
    Task("sac", "HalfCheetah-v4", 100_000, 5000, 3, last=True),
    Task("td3", "HalfCheetah-v4", 100_000, 4300, 3, last=True),
    Task("ddpg", "HalfCheetah-v4", 100_000, 3000, 3, last=True),
    # Spinning Up's PyTorch PPO on Hopper-v3 has a mean of 517.45 at 300,000 steps.
    Task("ppo", "Hopper-v4", 300_000, 517.45, 3, last=True),
]


def returns(task: Task, seed: int) -> tuple[float, float]:
    """Trains once; the return of the best epoch, and of the last five."""
    threads = dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-c", "from jaxrl.cli.main import main; main()"]
        command += ["train", task.algo, "--env", task.env, "--seed", str(seed)]
        command += ["--steps", str(task.steps), "--out", out, "--exp_name", "learn"]
        done = subprocess.run(
            command, env=os.environ | threads, capture_output=True, text=True
        )
        progress = Path(out) / "learn" / f"learn_s{seed}" / "progress.csv"
        if done.returncode or not progress.exists():
            raise RuntimeError(f"{task.name} seed {seed} failed: {done.stderr[-500:]}")
        rows = list(csv.DictReader(progress.read_text().splitlines()))
    column = "AverageTestEpRet" if "AverageTestEpRet" in rows[0] else "AverageEpRet"
    within = [r for r in rows if float(r["TotalEnvInteracts"]) <= task.steps]
    found = [float(row[column]) for row in within if row[column]]
    return max(found), statistics.mean(found[-5:])


def finished() -> dict[tuple[str, int], tuple[float, float]]:
    if not RESULTS.exists():
        return {}
    rows = csv.DictReader(RESULTS.read_text().splitlines())
    return {
        (row["task"], int(row["seed"])): (float(row["best"]), float(row["last"]))
        for row in rows
    }


def keep(task: Task, seed: int, best: float, last: float) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    begun = RESULTS.exists()
    with RESULTS.open("a") as file:
        if not begun:
            file.write("task,seed,best,last\n")
        file.write(f"{task.name},{seed},{best:.1f},{last:.1f}\n")


def run(tasks: list[Task], jobs: int) -> None:
    known = finished()
    waiting = [
        (t, s) for t in tasks for s in range(t.seeds) if (t.name, s) not in known
    ]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(returns, *pair): pair for pair in waiting}
        for future in concurrent.futures.as_completed(futures):
            task, seed = futures[future]
            best, last = future.result()
            keep(task, seed, best, last)
            print(f"{task.name} seed {seed}: {best:.1f}, last {last:.1f}", flush=True)


def report(tasks: list[Task]) -> bool:
    """Prints the table; whether all marks were reached."""
    known, good = finished(), True
    print("| algorithm | environment | steps | mark | reached | by seed |")
    print("| --- | --- | --- | --- | --- | --- |")
    for task in tasks:
        pairs = [(task.name, seed) for seed in range(task.seeds)]
        if any(pair not in known for pair in pairs):
            continue
        found = [known[pair][task.last] for pair in pairs]
        reached = statistics.mean(found) if task.last else min(found)
        good &= reached >= task.mark
        how = "mean, last 5 epochs" if task.last else "worst seed, best epoch"
        verdict = "" if reached >= task.mark else " (missed)"
        seeds = ", ".join(f"{value:.0f}" for value in found)
        cells = (task.algo, task.env, f"{task.steps:,}", f"{task.mark:g}")
        print(f"| {' | '.join(cells)} | {reached:.0f}{verdict}, {how} | {seeds} |")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="runs at a time"
    )
    parser.add_argument("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    tasks = [task for task in TASKS if arguments.only in task.name]
    if not tasks:
        names = "\n  ".join(task.name for task in TASKS)
        print(f"no task contains {arguments.only!r}; there are\n  {names}")
        return 2
    if not arguments.report:
        run(tasks, arguments.jobs)
    return 0 if report(tasks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
