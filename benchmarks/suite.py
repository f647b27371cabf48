"""The learning suite against Spinning Up: curves, cells, verdicts, aggregates.

Reads only the committed curves in results/mujoco/ and Spinning Up's published ones.
Spinning Up's curves are smoothed over 11 epochs of 10,000 steps, so a point at t
averages t ± 55,000 steps; ours are smoothed the same way before they are compared.
"""

import csv
import functools
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
CURVES = HERE / "results" / "mujoco"
SPINUP = HERE.parent / "jaxrl" / "show" / "spinup.csv"
ENVS = ("HalfCheetah-v4", "Hopper-v4", "Walker2d-v4", "Ant-v4", "Swimmer-v4")
ALGOS = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")
ON_POLICY = ("vpg", "trpo", "ppo")
HALF_WINDOW = 55_000  # steps that a point averages on either side
GRID = 10_000  # steps between two points of a smoothed curve
SPINUP_SEEDS = 10
# Two-sided 95 % quantiles of Student's t with n - 1 degrees of freedom.
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 10: 2.26}


class Curve(NamedTuple):
    """Returns of one run over environment steps."""

    steps: np.ndarray
    returns: np.ndarray


class Reference(NamedTuple):
    """Spinning Up's curve: mean and standard deviation over ten seeds."""

    steps: np.ndarray
    mean: np.ndarray
    sd: np.ndarray

    def at(self, step: float) -> tuple[float, float]:
        mean, sd = (np.interp(step, self.steps, y) for y in (self.mean, self.sd))
        return float(mean), float(sd)


def half_width(sd: float, seeds: int) -> float:
    """Of the 95 % interval of a mean over seeds."""
    return STUDENT.get(seeds, 2.0) * sd / math.sqrt(seeds)


def verdict(ours: float, theirs: float, margin: float) -> str:
    """Of two means whose intervals have together the half width `margin`."""
    if abs(ours - theirs) <= margin:
        return "level"
    return "ahead" if ours > theirs else "behind"


class Cell(NamedTuple):
    """One algorithm in one environment, at the step where both are compared."""

    algo: str
    env: str
    step: int
    scores: np.ndarray  # one a seed
    theirs: float
    their_sd: float

    @property
    def mean(self) -> float:
        return float(self.scores.mean())

    @property
    def half_width(self) -> float:
        """Of the 95 % interval of the mean; for one seed, by Spinning Up's spread."""
        if len(self.scores) == 1:
            return 1.96 * self.their_sd
        return half_width(float(self.scores.std(ddof=1)), len(self.scores))

    @property
    def verdict(self) -> str:
        """Level where the 95 % intervals of the two means overlap."""
        margin = self.half_width + 1.96 * self.their_sd / math.sqrt(SPINUP_SEEDS)
        return verdict(self.mean, self.theirs, margin)

    @property
    def probability_of_improvement(self) -> np.ndarray:
        """P(ours > theirs) for each seed of ours; theirs is taken as normal."""
        z = (self.scores - self.theirs) / max(self.their_sd, 1e-9)
        return np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in z])


@functools.cache
def runs() -> dict[tuple[str, str, int], list[Curve]]:
    """The curves by algorithm, environment and length, one a seed."""
    found: dict[tuple[str, str, int], list[Curve]] = {}
    for file in sorted(CURVES.glob("*_s*.csv")):
        algo, env, steps, _ = file.stem.split("_")
        _, *rows = csv.reader(file.read_text().splitlines())
        table = np.array([(float(s), float(r)) for s, r in rows if r]).T
        found.setdefault((algo, env, int(steps)), []).append(Curve(*table))
    return found


def smoothed(curve: Curve, until: int) -> Curve:
    """Means over t ± HALF_WINDOW, at multiples of GRID up to `until`."""
    grid = np.arange(GRID, until + 1, GRID)
    near = np.abs(curve.steps[None] - grid[:, None]) <= HALF_WINDOW
    return Curve(grid, (near * curve.returns[None]).sum(1) / near.sum(1))


@functools.cache
def references() -> dict[tuple[str, str], Reference]:
    """Spinning Up's curves by algorithm and environment."""
    rows: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for row in csv.DictReader(SPINUP.read_text().splitlines()):
        numbers = tuple(float(row[name]) for name in ("steps", "mean", "sd"))
        rows.setdefault((row["algo"], row["env"]), []).append(numbers)
    return {key: Reference(*np.array(points).T) for key, points in rows.items()}


def reference(algo: str, env: str) -> Reference:
    return references()[algo, env.removesuffix("-v4").lower()]


def last_step(steps: int) -> int:
    """The last step of a run at which its smoothed curve has a whole window."""
    return (steps - HALF_WINDOW) // GRID * GRID


def cell(algo: str, env: str, steps: int) -> Cell | None:
    """The comparison at the last step that has a whole window."""
    curves = runs().get((algo, env, steps))
    if not curves:
        return None
    step = last_step(steps)
    scores = np.array([smoothed(curve, step).returns[-1] for curve in curves])
    return Cell(algo, env, step, scores, *reference(algo, env).at(step))


def cells() -> list[Cell]:
    """All that have curves; the short suite's, not the long off-policy runs."""
    found = [
        cell(algo, env, 1_000_000 if algo in ON_POLICY else 300_000)
        for algo in ALGOS
        for env in ENVS
    ]
    return [each for each in found if each]


def long_cells() -> list[Cell]:
    """The off-policy runs of a million steps."""
    found = [cell(a, e, 1_000_000) for a in ALGOS if a not in ON_POLICY for e in ENVS]
    return [each for each in found if each]


def rows(found: list[Cell]) -> list[str]:
    """The table of cells in Markdown."""
    head = "| algorithm | environment | step | return | seeds | Spinning Up | |"
    lines = [head, "| --- | --- | --- | --- | --- | --- | --- |"]
    for each in found:
        interval = f" ± {each.half_width:.0f}" if len(each.scores) > 1 else ""
        cells = (
            each.algo.upper(),
            each.env,
            f"{each.step:,}",
            f"{each.mean:.0f}{interval}",
            str(len(each.scores)),
            f"{each.theirs:.0f} ± {1.96 * each.their_sd / math.sqrt(SPINUP_SEEDS):.0f}",
            each.verdict,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def normalised(env: str, value: np.ndarray | float) -> np.ndarray | float:
    """0: Spinning Up's worst return at its start; 1: its best algorithm at 1M steps."""
    curves = [reference(algo, env) for algo in ALGOS]
    low = min(curve.mean[0] for curve in curves)
    high = max(curve.at(1_000_000)[0] for curve in curves)
    return (value - low) / (high - low)
