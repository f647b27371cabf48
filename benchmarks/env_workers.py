"""From which cost of an environment's step on `--env_workers` pays.

    python benchmarks/env_workers.py             # measures: about two minutes
    python benchmarks/env_workers.py --report    # the table from earlier measurements

Eight environments whose step computes, or waits (as for a simulator elsewhere), so long
are stepped in this process and in workers, in turns. A measurement is the time of a
step of all eight that one in twenty goes below, so that other work on the machine
counts little; the table has medians over rounds. Computing in workers needs as many
cores. Results are in results/env_workers.csv, with the load of the machine.

The fastest twentieth was chosen after averages over a second, with and without waiting
environments, had differed up to threefold between rounds at a load of 22 to 26 on two
cores. On a machine without other work an average would do, and be the better measure.
"""

import argparse
import itertools
import os
import statistics
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import records

from jaxrl import envs

RESULTS = Path(__file__).parent / "results" / "env_workers.csv"
NAME = "env_workers:Busy"  # by which the workers find it
NUM_ENVS = 8
COSTS = (10, 30, 100, 300, 1000)  # microseconds
KINDS = ("computes", "waits")
SECONDS = 1.0  # of a measurement, at least


class Busy(gym.Env):
    """Each step takes `cost` microseconds: of a processor, or of waiting."""

    observation_space = gym.spaces.Box(-1, 1, (17,))
    action_space = gym.spaces.Box(-1, 1, (6,))

    def __init__(self, kind: str, cost: int) -> None:
        self.waits, self.cost = kind == "waits", cost * 1e-6
        self.obs = np.zeros(17, np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        super().reset(seed=seed)
        return self.obs, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self.waits:
            time.sleep(self.cost)
        else:
            end = time.thread_time() + self.cost
            while time.thread_time() < end:
                pass
        return self.obs, 0.0, False, False, {}


def steps_per_second(kind: str, cost: int, workers: int) -> float:
    """Environment steps a second, after a start that is not counted."""
    kwargs = {"kind": kind, "cost": cost}
    made = envs.make(NAME, NUM_ENVS, 0, 1000, kwargs, workers=workers)
    action = np.zeros((NUM_ENVS, 6), np.float32)
    try:
        for _ in range(20):
            made.step(action)
        times = [time.perf_counter()]
        while times[-1] - times[0] < SECONDS or len(times) < 100:
            made.step(action)
            times.append(time.perf_counter())
    finally:
        made.close()
    return NUM_ENVS / float(np.quantile(np.diff(times), 0.05))


def measure(rounds: int, counts: list[int]) -> None:
    cases = itertools.product(range(rounds), KINDS, COSTS, (0, *counts))
    for number, kind, cost, workers in cases:
        row = {
            "kind": kind,
            "cost": cost,
            "workers": workers,
            "round": number,
            "load": f"{os.getloadavg()[0]:.1f}",
            "steps_per_second": f"{steps_per_second(kind, cost, workers):.0f}",
        }
        records.append(RESULTS, row)
        print(" ".join(f"{name} {value}" for name, value in row.items()), flush=True)


def report(rows: list[dict[str, str]]) -> None:
    """Prints the table."""
    counts = sorted({int(row["workers"]) for row in rows} - {0})
    titles = [f"{n} workers | gain" for n in counts]
    print(f"| a step | no workers, steps/s | {' | '.join(titles)} |")
    print("| --- " * (2 + 2 * len(counts)) + "|")
    for kind, cost in itertools.product(KINDS, COSTS):
        alone = _median(rows, kind, cost, 0)
        cells = [f"{kind} {cost} µs", f"{alone:,.0f}"]
        for n in counts:
            speed = _median(rows, kind, cost, n)
            cells += [f"{speed:,.0f}", f"{speed / alone:.2f} x"]
        print(f"| {' | '.join(cells)} |")


def _median(rows: list[dict[str, str]], kind: str, cost: int, workers: int) -> float:
    key = {"kind": kind, "cost": str(cost), "workers": str(workers)}
    found = [row for row in rows if key.items() <= row.items()]
    return statistics.median(float(row["steps_per_second"]) for row in found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--report", action="store_true", help="do not measure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[os.cpu_count() or 1])
    given = parser.parse_args()
    if not given.report:
        measure(given.rounds, given.workers)
    report(records.read(RESULTS))


if __name__ == "__main__":
    main()
