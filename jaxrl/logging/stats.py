"""Statistics of samples that can be merged, also over several processes."""

import dataclasses
import math
from typing import Any, Self

import numpy as np


@dataclasses.dataclass(frozen=True, repr=False)
class Stats:
    """A sample by its size, mean, sum of squares about the mean, least and greatest."""

    n: int = 0
    mean: float = 0.0
    m2: float = 0.0
    min: float = math.inf
    max: float = -math.inf

    @classmethod
    def from_values(cls, values: Any) -> Self:
        x = np.asarray(values, np.float64).ravel()
        if not x.size:
            return cls()
        # A user's infinite value is shown, not warned about.
        with np.errstate(invalid="ignore", over="ignore"):
            mean = x.mean()
            spread = float(((x - mean) ** 2).sum())
        return cls(x.size, float(mean), spread, float(x.min()), float(x.max()))

    @property
    def std(self) -> float:
        return math.sqrt(self.m2 / self.n) if self.n else math.nan

    def __repr__(self) -> str:
        if not self.n:
            return "Stats(n=0)"
        parts = [f"{x}={getattr(self, x):.6g}" for x in ("mean", "std", "min", "max")]
        return f"Stats(n={self.n}, {', '.join(parts)})"


def merge(a: Stats, b: Stats) -> Stats:
    """The summary of both samples together; associative, with `Stats()` as unit."""
    n = a.n + b.n
    if not n:
        return Stats()
    shift = b.mean - a.mean
    m2 = a.m2 + b.m2 + _square(shift) * a.n * b.n / n
    mean = a.mean + shift * b.n / n
    least, greatest = min(a.min, b.min), max(a.max, b.max)
    if math.isnan(a.min) or math.isnan(b.min):  # comparisons would lose it
        least = greatest = math.nan
    return Stats(n, mean, m2, least, greatest)


def _square(x: float) -> float:
    try:
        return x**2
    except OverflowError:
        return math.inf
