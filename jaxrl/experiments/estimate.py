"""How long many runs will take, by the pace of earlier ones."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from jaxrl.errors import UserError
from jaxrl.experiments.variant import Variant
from jaxrl.runs import reading
from jaxrl.runs.reading import Record

# Steps a second with the default settings in Hopper on one core of a server of 2020,
# where no run tells better.
ROUGHLY = {"vpg": 5000, "trpo": 4000, "ppo": 3000, "ddpg": 190, "td3": 160, "sac": 110}
START = 10.0  # seconds until a run takes its first step, compiling


def estimate(variants: Sequence[Variant], jobs: int = 0) -> tuple[float, str]:
    """Seconds for all that is not finished, and what they are reckoned from."""
    known = _paces(Path(variants[0].run.out).parent)
    exact = True
    seconds = []
    for variant in variants:
        algo, env = variant.run.algo, variant.run.env
        pace = known.get((algo, env)) or known.get((algo, ""))
        exact = exact and pace is not None
        left = variant.run.total_steps - _taken(variant)
        seconds.append(left / (pace or ROUGHLY[algo]) + (START if left > 0 else 0))
    largest = max(variant.processes for variant in variants)
    fitting = max(len(os.sched_getaffinity(0)) // largest, 1)
    concurrent = min(jobs or fitting, len(variants))
    basis = "by the pace of earlier runs" if exact else "a rough guess: no earlier runs"
    return max(
        sum(seconds) / concurrent, max(seconds)
    ), f"{concurrent} at a time, {basis}"


def _taken(variant: Variant) -> int:
    record = variant.record
    if record is None or variant.changes(record) or not record.progress:
        return 0
    return int(min(record.progress["TotalEnvInteracts"][-1], variant.run.total_steps))


def _paces(out: Path) -> dict[tuple[str, str], float]:
    """Steps a second by algorithm and environment, and by algorithm alone."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in _runs(out):
        if len(paces := record.progress.get("StepsPerSecond", ())):
            pace = float(statistics.median(paces))
            for env in record.config["env"], "":
                found.setdefault((record.config["algo"], env), []).append(pace)
    return {key: statistics.median(paces) for key, paces in found.items()}


def _runs(out: Path) -> list[Record]:
    try:
        return reading.find([str(out)])
    except UserError:  # none are there yet
        return []
