"""Spinning Up's published learning curves, as references beside our own."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.logging.columns import RETURNS, STEPS
from jaxrl.show.curves import PERFORMANCE, Curve, Panel, View

FILE = Path(__file__).with_name("spinup.csv")
ENVIRONMENTS = "HalfCheetah, Hopper, Walker2d, Swimmer and Ant"
SEEDS = 10


def reference_curves(panel: Panel, view: View) -> list[Curve]:
    """Mean and standard deviation over ten seeds, as far as the panel's curves reach.

    Empty where nothing was published. A reference that begins only after our curves
    end has no points.
    """
    if view.x != STEPS or panel.y not in (PERFORMANCE, *RETURNS):
        return []
    if len(panel.environments) != 1:
        return []
    env = next(iter(panel.environments)).rpartition("/")[2].rpartition(":")[2]
    end = max(float(curve.x[-1]) for curve in panel.curves)
    algos = dict.fromkeys(curve.algo for curve in panel.curves)
    published = _published(env.partition("-v")[0].lower())
    return [
        _reference(backend, algo, published[backend, algo], end)
        for algo in algos
        for backend in ("pytorch", "tensorflow")
        if (backend, algo) in published
    ]


def _published(env: str) -> dict[tuple[str, str], np.ndarray]:
    """Rows of steps, mean and sd by backend and algorithm."""
    curves: dict[tuple[str, str], list[Any]] = {}
    with FILE.open() as file:
        for row in csv.DictReader(file):
            if row["env"] == env:
                values = [float(row[name]) for name in ("steps", "mean", "sd")]
                curves.setdefault((row["backend"], row["algo"]), []).append(values)
    return {key: np.array(values) for key, values in curves.items()}


def _reference(backend: str, algo: str, rows: np.ndarray, end: float) -> Curve:
    """The published curve up to `end`, without extrapolation."""
    steps, mean, sd = rows.T
    x = np.append(steps[steps < end], end)
    x = x[(x >= steps[0]) & (x <= steps[-1])]
    y, spread = np.interp(x, steps, mean), np.interp(x, steps, sd)
    label = f"Spinning Up's {algo}, {backend}"
    return Curve(label, SEEDS, algo, x, y, y - spread, y + spread, float(steps[-1]))
