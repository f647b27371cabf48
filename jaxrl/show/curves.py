"""Learning curves: groups of runs, each averaged on a common grid of steps.

runs ── grouped by name ── smoothed ── on one grid ── estimate and band ──► Curve
     └─ grouped by environment, for each column ──────────────────────────► Panel
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from jaxrl.errors import UserError, suggestion
from jaxrl.logging.columns import RETURNS, STEPS
from jaxrl.runs.reading import Record
from jaxrl.show import statistics
from jaxrl.show.selection import check_setting, group_by

PERFORMANCE = "Performance"  # return of test episodes, else of training episodes


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """What a picture shows of the runs: columns, groups, averages."""

    x: str = STEPS
    ys: Sequence[str] = (PERFORMANCE,)
    smooth: int = 1
    est: str = "mean"
    band: str = "ci"
    group: Sequence[str] = ("exp_name",)
    each_run: bool = False
    facet: str = "env"
    legend: Sequence[str] = ()


class Curve(NamedTuple):
    """An estimate over `runs` runs, and the edges of its band."""

    label: str
    runs: int
    algo: str  # "" where they differ
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    latest: float  # x where the longest run ends; the curve ends with the shortest


class Panel(NamedTuple):
    """Curves on the same axes; `environments` are those of their runs."""

    title: str
    y: str
    environments: set[str]
    curves: list[Curve]


def panels(runs: Sequence[Record], view: View) -> list[Panel]:
    """One for each column of `view.ys` and each environment, column by column."""
    if view.facet:
        check_setting(runs, view.facet)
    check_columns(runs, [view.x, *view.ys])
    names = legend_names(runs, view)
    facets = _faceted(runs, view)
    return [
        _panel(title, y, members, view, names)
        for y in view.ys
        for title, members in facets.items()
    ]


def _faceted(runs: Sequence[Record], view: View) -> dict[str, list[Record]]:
    if not view.facet:
        return group_by(runs, lambda run: "")
    return group_by(runs, lambda run: _setting_label(run, view.facet))


def mixed_environments(runs: Sequence[Record], view: View) -> dict[str, list[str]]:
    """The environments of each curve that averages several, by its label."""
    names = legend_names(runs, view)
    found: dict[str, list[str]] = {}
    for members in _faceted(runs, view).values():
        groups = group_by(members, lambda run: names[curve_label(run, view)])
        for name, group in groups.items():
            envs = group_by(group, lambda run: run.config["env"])
            found |= {name: list(envs)} if len(envs) > 1 else {}
    return found


def legend_names(runs: Sequence[Record], view: View) -> dict[str, str]:
    """The name of each label in the legend."""
    for key in view.group:
        check_setting(runs, key)
    labels = list(group_by(runs, lambda run: curve_label(run, view)))
    if view.legend and len(view.legend) != len(labels):
        raise UserError(
            f"--legend has {len(view.legend)} names, but there are {len(labels)} "
            f"curves: {', '.join(labels)}"
        )
    return dict(zip(labels, view.legend or labels, strict=True))


def curve_label(run: Record, view: View) -> str:
    """The label of the curve that the run belongs to."""
    if view.each_run:
        return run.name
    parts = [_setting_label(run, key) for key in view.group]
    if view.facet == "env" and view.group[0] == "exp_name":
        # Default names end in the environment, which is in the title.
        parts[0] = parts[0].removesuffix(f"-{run.config['env']}")
    return ", ".join(parts)


def _setting_label(run: Record, key: str) -> str:
    """The value of a setting, with its name unless the value explains itself."""
    value = str(run.setting(key))
    return value if key in ("exp_name", "algo", "env") else f"{key} {value}"


def _panel(
    title: str,
    y: str,
    runs: Sequence[Record],
    view: View,
    names: dict[str, str],
) -> Panel:
    groups = group_by(runs, lambda run: names[curve_label(run, view)])
    curves = [_curve(name, group, y, view) for name, group in groups.items()]
    return Panel(title, y, {run.config["env"] for run in runs}, curves)


def _curve(label: str, runs: Sequence[Record], y: str, view: View) -> Curve:
    series = [_series(run, y, view) for run in runs]
    x, ys = statistics.on_common_grid(series)
    if not len(x):
        raise UserError(
            f"the runs of {label} share no {view.x}; draw each with --count"
        )
    estimate = statistics.ESTIMATORS[view.est]
    edges = statistics.band(ys, view.band, estimate)
    algos = {run.config["algo"] for run in runs}
    algo = algos.pop() if len(algos) == 1 else ""
    latest = max(float(x[-1]) for x, _ in series)
    return Curve(label, len(runs), algo, x, estimate(ys), *edges, latest)


def _series(run: Record, y: str, view: View) -> tuple[np.ndarray, np.ndarray]:
    """The smoothed column over x, without its empty cells."""
    x, values = column(run, view.x), column(run, y)
    known = np.isfinite(x) & np.isfinite(values)
    if not known.any():
        raise UserError(f"{run.path} has no value of {y} yet")
    if not (np.diff(x[known]) > 0).all():
        raise UserError(
            f"{view.x} does not increase in {run.path}, so it cannot be the x axis; "
            f"take {STEPS}, Epoch or Time"
        )
    return x[known], statistics.smooth(values[known], view.smooth)


def column(run: Record, name: str) -> np.ndarray:
    """A column of progress.csv; `Performance` is the first of `RETURNS` it has."""
    return run.progress[_column_name(run, name)]


def _column_name(run: Record, name: str) -> str:
    """The column's name in progress.csv."""
    if name != PERFORMANCE:
        return name
    return next((known for known in RETURNS if known in run.progress), RETURNS[-1])


def check_columns(runs: Sequence[Record], names: Iterable[str]) -> None:
    """Raises unless every run has all these columns."""
    for name in names:
        with_column = sum(_column_name(run, name) in run.progress for run in runs)
        if 0 < with_column < len(runs):
            raise UserError(
                f"only {with_column} of {len(runs)} runs have {name!r}; choose "
                "them with --select, or another column"
            )
        if not with_column:
            known = dict.fromkeys(column for run in runs for column in run.progress)
            raise UserError(
                f"there is no column {name!r} among {', '.join(known)}"
                f"{suggestion(name, known)}"
            )
