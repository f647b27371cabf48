"""Does it learn? Every algorithm with its defaults, on tasks with a mark to reach.

    python benchmarks/learn.py                          # all tasks: hours
    python benchmarks/learn.py --only CartPole --jobs 2

Each run is a `jaxrl train` of its own with one thread. Its best epoch (the mean return
of greedy test episodes, or where there are none of the training's) is written to the
results as soon as it ends; what stands there is not run again.
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
    each: bool = True  # every seed must reach the mark, or else their mean

    @property
    def name(self) -> str:
        return f"{self.algo} {self.env} {self.steps}"


TASKS = [
    Task("ppo", "CartPole-v1", 100_000, 475),
    Task("trpo", "CartPole-v1", 100_000, 475),
    Task("vpg", "CartPole-v1", 200_000, 400),
    *(Task(algo, "Pendulum-v1", 20_000, -200) for algo in ("ddpg", "td3", "sac")),
    *(Task(algo, "InvertedPendulum-v4", 50_000, 950) for algo in ("td3", "sac")),
    Task("sac", "HalfCheetah-v4", 100_000, 5000, 3, False),
    Task("td3", "HalfCheetah-v4", 100_000, 4300, 3, False),
    Task("ddpg", "HalfCheetah-v4", 100_000, 3000, 3, False),
    # Spinning Up's PyTorch PPO on Hopper-v3 has a mean of 517.45 at 300,000 steps.
    Task("ppo", "Hopper-v4", 300_000, 517.45, 3, False),
]


def best_return(task: Task, seed: int) -> float:
    """Trains once; the best epoch's mean return."""
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
    return max(float(row[column]) for row in within if row[column])


def finished() -> dict[tuple[str, int], float]:
    if not RESULTS.exists():
        return {}
    rows = csv.DictReader(RESULTS.read_text().splitlines())
    return {(row["task"], int(row["seed"])): float(row["return"]) for row in rows}


def keep(task: Task, seed: int, returned: float) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    begun = RESULTS.exists()
    with RESULTS.open("a") as file:
        if not begun:
            file.write("task,seed,return\n")
        file.write(f"{task.name},{seed},{returned:.1f}\n")


def run(tasks: list[Task], jobs: int) -> None:
    known = finished()
    waiting = [
        (t, s) for t in tasks for s in range(t.seeds) if (t.name, s) not in known
    ]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(best_return, *pair): pair for pair in waiting}
        for future in concurrent.futures.as_completed(futures):
            task, seed = futures[future]
            keep(task, seed, future.result())
            print(f"{task.name} seed {seed}: {future.result():.1f}", flush=True)


def report(tasks: list[Task]) -> bool:
    """Prints the table; whether all marks were reached."""
    known, good = finished(), True
    print("| algorithm | environment | steps | mark | worst | mean | seeds | |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for task in tasks:
        found = [
            known[task.name, s] for s in range(task.seeds) if (task.name, s) in known
        ]
        if len(found) < task.seeds:
            continue
        worst, mean = min(found), statistics.mean(found)
        reached = (worst if task.each else mean) >= task.mark
        good &= reached
        mark = f"{task.mark:g} {'each' if task.each else 'mean'}"
        cells = (task.algo, task.env, f"{task.steps:,}", mark, f"{worst:.1f}")
        cells += (f"{mean:.1f}", str(task.seeds), "reached" if reached else "missed")
        print(f"| {' | '.join(cells)} |")
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
