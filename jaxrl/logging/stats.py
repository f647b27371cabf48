"""Statistics of samples that can be merged, also over several processes."""

import dataclasses
import math
from typing import Any, Self

import numpy as np


@dataclasses.dataclass(frozen=True)
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
        mean = x.mean()
        spread = float(((x - mean) ** 2).sum())
        return cls(x.size, float(mean), spread, float(x.min()), float(x.max()))

    @property
    def std(self) -> float:
        return math.sqrt(self.m2 / self.n)


def merge(a: Stats, b: Stats) -> Stats:
    """The summary of both samples together; associative, with `Stats()` as unit."""
    n = a.n + b.n
    if not n:
        return Stats()
    shift = b.mean - a.mean
    m2 = a.m2 + b.m2 + shift**2 * a.n * b.n / n
    return Stats(n, a.mean + shift * b.n / n, m2, min(a.min, b.min), max(a.max, b.max))
