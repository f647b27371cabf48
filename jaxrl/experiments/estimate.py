"""How long many runs will take, by the speed of earlier ones."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from jaxrl.errors import UserError
from jaxrl.experiments.variant import Variant
from jaxrl.runs import finding
from jaxrl.runs.reading import Record
from jaxrl.runs.spec import Run

# Steps per second with the default settings in Hopper on one core of a server of 2020,
# used where there is no earlier run.
TYPICAL_SPEED = {
    "vpg": 5000,
    "trpo": 4000,
    "ppo": 3000,
    "ddpg": 190,
    "td3": 160,
    "sac": 110,
}
START = 10.0  # seconds until a run takes its first step, mostly compiling


def estimate(variants: Sequence[Variant], jobs: int = 0) -> tuple[float, str]:
    """Seconds for all that is not finished, and what the estimate is based on."""
    known = _speeds(Path(variants[0].run.out).parent)
    exact = True
    seconds = []
    for variant in variants:
        algo, env = variant.run.algo, variant.run.env
        speed = known.get((algo, env)) or known.get((algo, ""))
        exact = exact and speed is not None
        left = variant.run.total_steps - _steps_done(variant)
        startup = START if left > 0 else 0
        seconds.append(left / (speed or _typical_speed(variant.run)) + startup)
    largest = max(variant.processes for variant in variants)
    fitting = max(len(os.sched_getaffinity(0)) // largest, 1)
    concurrent = min(jobs or fitting, len(variants))
    basis = "from the speed of earlier runs" if exact else "no earlier runs; rough"
    total = max(sum(seconds) / concurrent, max(seconds))
    return total, f"{concurrent} at a time, {basis}"


def _typical_speed(run: Run) -> int:
    """Of a user's algorithm, that of one which learns from the same kind of data."""
    like = "sac" if hasattr(run.data, "replay_size") else "ppo"
    return TYPICAL_SPEED.get(run.algo, TYPICAL_SPEED[like])


def _steps_done(variant: Variant) -> int:
    record = variant.record
    if record is None or variant.changes(record) or not record.progress:
        return 0
    if record.state == "finished":  # also before its last step, by a callback
        return variant.run.total_steps
    return int(min(record.progress["TotalEnvInteracts"][-1], variant.run.total_steps))


def _speeds(out: Path) -> dict[tuple[str, str], float]:
    """Steps per second by algorithm and environment, and by algorithm alone."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in _runs(out):
        if len(speeds := record.progress.get("StepsPerSecond", ())):
            speed = float(statistics.median(speeds))
            for env in record.config["env"], "":
                found.setdefault((record.config["algo"], env), []).append(speed)
    return {key: statistics.median(speeds) for key, speeds in found.items()}


def _runs(out: Path) -> list[Record]:
    try:
        return finding.readable(finding.directories([str(out)]))[0]
    except UserError:  # none are there yet
        return []
