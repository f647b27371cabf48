"""Our runs of a million steps beside the best published returns of other libraries.

published.csv holds those: Tianshou's and the TD3 authors' are the highest mean over
seeds within the run (`best`), sb3-contrib's that of the trained policy (`last`). Ours
are measured in the same way, from means over 10,000 steps, or over the last 100,000.
"""

import csv
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import suite

PUBLISHED = Path(__file__).parent / "published.csv"
STEPS = 1_000_000
LAST = 100_000  # steps at the end of a run


class Returns(NamedTuple):
    mean: float
    half_width: float  # of the 95 % interval

    @classmethod
    def of(cls, mean: float, sd: float, seeds: int) -> "Returns":
        return cls(mean, suite.half_width(sd, seeds))

    def __str__(self) -> str:
        interval = f" ± {self.half_width:.0f}" if math.isfinite(self.half_width) else ""
        return f"{self.mean:.0f}{interval}"


def binned(curve: suite.Curve) -> np.ndarray:
    """Means over every 10,000 steps, carried over where no epoch ended."""
    ends = np.arange(suite.GRID, STEPS + 1, suite.GRID)
    places = np.searchsorted(ends, curve.steps.clip(max=STEPS))
    filled: list[float] = []
    for i in range(len(ends)):
        inside = curve.returns[places == i]
        carried = filled[-1] if filled else curve.returns[0]
        filled.append(float(inside.mean()) if inside.size else carried)
    return np.array(filled)


def ours(algo: str, env: str, metric: str) -> Returns | None:
    """Over our seeds; None without a run."""
    curves = suite.runs().get((algo, env, STEPS))
    if not curves:
        return None
    table = np.array([binned(curve) for curve in curves])  # [seeds, bins]
    if metric == "best":
        scores = table[:, table.mean(axis=0).argmax()]
    else:
        scores = table[:, -LAST // suite.GRID :].mean(axis=1)
    sd = float(scores.std(ddof=1)) if len(scores) > 1 else math.inf
    return Returns.of(float(scores.mean()), sd, len(scores))


def rows() -> list[str]:
    """The table in Markdown; a case without a run of ours is left out."""
    lines = ["| algorithm | environment | jaxrl | best published | |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for row in csv.DictReader(PUBLISHED.read_text().splitlines()):
        if (mine := ours(row["algo"], row["env"], row["metric"])) is None:
            continue
        numbers = float(row["mean"]), float(row["sd"]), int(row["seeds"])
        theirs = Returns.of(*numbers)
        cells = (row["algo"].upper(), row["env"], str(mine))
        margin = mine.half_width + theirs.half_width
        verdict = suite.verdict(mine.mean, theirs.mean, margin)
        cells += (f"{theirs}, {row['source']}", verdict)
        lines.append(f"| {' | '.join(cells)} |")
    return lines
