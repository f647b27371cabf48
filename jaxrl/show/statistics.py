"""Statistics over seeds, as curves [n, ...] along their first axis.

iqm        the mean of the middle half (Agarwal et al., 2021, arXiv:2108.13264)
bootstrap  percentiles of an estimate over samples drawn with replacement
"""

from collections.abc import Callable, Sequence

import numpy as np

Estimator = Callable[[np.ndarray], np.ndarray]

DRAWS = 1000
LEVEL = 0.95
POINTS = 1000  # per curve; more than a picture can show


def iqm(values: np.ndarray) -> np.ndarray:
    """The mean without the lowest and highest quarter, each rounded down."""
    cut = len(values) // 4
    return np.sort(values, axis=0)[cut : len(values) - cut].mean(axis=0)


def mean(values: np.ndarray) -> np.ndarray:
    """Over runs."""
    return np.mean(values, axis=0)


def median(values: np.ndarray) -> np.ndarray:
    """Over runs."""
    return np.median(values, axis=0)


ESTIMATORS: dict[str, Estimator] = {"mean": mean, "median": median, "iqm": iqm}


def bootstrap(values: np.ndarray, estimate: Estimator) -> tuple[np.ndarray, np.ndarray]:
    """The ends of a 95 % interval of `estimate`, drawn with a fixed seed."""
    rng = np.random.default_rng(0)
    picks = rng.integers(len(values), size=(DRAWS, len(values)))
    estimates = np.stack([estimate(values[pick]) for pick in picks])
    low, high = np.quantile(estimates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


MultiSampleEstimator = Callable[[Sequence[np.ndarray]], np.ndarray]


def stratified_bootstrap(
    samples: Sequence[np.ndarray], estimate: MultiSampleEstimator
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of a 95 % interval of an estimate over several samples.

    `estimate` takes all of them with draws as their first axis. Each sample is redrawn
    from itself alone, so its size is the same in every draw.
    """
    rng = np.random.default_rng(0)
    drawn = [x[rng.integers(len(x), size=(DRAWS, len(x)))] for x in samples]
    low, high = np.quantile(estimate(drawn), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def band(
    values: np.ndarray, kind: str, estimate: Estimator
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper edge: ci, sd (about the mean) or minmax."""
    if kind == "ci":
        return bootstrap(values, estimate)
    if kind == "minmax":
        return values.min(axis=0), values.max(axis=0)
    middle, spread = values.mean(axis=0), values.std(axis=0)
    return middle - spread, middle + spread


def smooth(values: np.ndarray, window: int) -> np.ndarray:
    """The moving average over `window` values, over fewer at the ends."""
    weights = np.ones(window)
    inside = slice((window - 1) // 2, (window - 1) // 2 + len(values))
    total = np.convolve(values, weights)[inside]
    return total / np.convolve(np.ones(len(values)), weights)[inside]


def on_common_grid(
    curves: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """The (x, y) curves at the same x, between their latest start and earliest end.

    Nothing is interpolated where all have the same x.
    """
    start, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    every = np.unique(np.concatenate([x for x, _ in curves]))
    grid = every[(every >= start) & (every <= end)]
    if len(grid) > POINTS:
        grid = np.linspace(start, end, POINTS)
    return grid, np.stack([np.interp(grid, x, y) for x, y in curves])  # [n, len(grid)]
