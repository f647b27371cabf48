"""Learning curves: runs gathered into groups, each averaged on a common grid of steps.

runs ── grouped by name ── smoothed ── on one grid ── estimate and band ──► Curve
     └─ parted by environment and column ────────────────────────────────► Panel
"""

import contextlib
import csv
import dataclasses
import fnmatch
import glob
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl.errors import UserError, suggestion
from jaxrl.logging.columns import RETURNS, STEPS
from jaxrl.runs import reading
from jaxrl.runs.reading import Record
from jaxrl.show import statistics

PERFORMANCE = "Performance"  # of the test episodes, or else of the training's
SPINUP = Path(__file__).with_name("spinup.csv")


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """What is to be seen of runs, and how."""

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
    """An estimate over so many `runs`, between the edges of its band."""

    label: str
    runs: int
    algo: str  # "" where they differ
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    latest: float  # x where the longest run ends; the curve ends with the shortest


class Panel(NamedTuple):
    """Curves that share their axes; `environments` are those of their runs."""

    title: str
    y: str
    environments: set[str]
    curves: list[Curve]


# Which runs


def found(patterns: Iterable[str], exclude: Sequence[str]) -> list[Record]:
    """The runs at or under `patterns`; one that is excluded by name is not opened."""
    runs = []
    for path in reading.directories(patterns):
        if not any(_is_called(path, pattern) for pattern in exclude):
            with _excludable(path):
                runs.append(reading.record(path))
    return runs


@contextlib.contextmanager
def _excludable(run: Path) -> Iterator[None]:
    """A refusal of a damaged run says how to see the others."""
    try:
        yield
    except UserError as error:
        name = shlex.quote(glob.escape(run.resolve().name))
        raise UserError(f"{error}; leave it out with --exclude {name}") from None


def chosen(
    runs: Iterable[Record], select: Sequence[str], exclude: Sequence[str]
) -> list[Record]:
    """The runs that match one pattern of `select`, if there are any, and no other's."""
    kept = [
        run
        for run in runs
        if (not select or any(_matches(run, pattern) for pattern in select))
        and not any(_matches(run, pattern) for pattern in exclude)
    ]
    if not kept:
        raise UserError("no run is left by --select and --exclude")
    return kept


def _matches(run: Record, pattern: str) -> bool:
    """A glob of the run's name, its experiment's or its path; or setting=value."""
    name, equals, value = pattern.partition("=")
    if equals:
        return fnmatch.fnmatchcase(str(run.setting(name)), value)
    experiment = str(run.config["exp_name"])
    return _is_called(run.path, pattern) or fnmatch.fnmatchcase(experiment, pattern)


def _is_called(run: Path, pattern: str) -> bool:
    names = (run.resolve().name, str(run))
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)


def with_data(runs: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """The runs that have a row, and those that have none."""
    for run in runs:
        with _excludable(run.path):
            _ = run.progress  # refuses a damaged one
    kept = [run for run in runs if run.progress]
    if not kept:
        raise UserError(f"{runs[0].path} has {lack(runs[0])}")
    return kept, [run for run in runs if not run.progress]


def lack(run: Record) -> str:
    """What a run without a row has: hope, while it is running."""
    if run.state == "running":
        return "no data yet; its first epoch is under way"
    return "no rows in its progress.csv"


# From runs to panels


def panels(runs: Sequence[Record], view: View) -> list[Panel]:
    """One for each column of `view.ys` and each environment, the latter inside."""
    if view.facet:
        _refuse_unknown_setting(runs, view.facet)
    refuse_unknown_columns(runs, [view.x, *view.ys])
    names = renamed(runs, view)
    facets = _faceted(runs, view)
    return [
        _panel(title, y, members, view, names)
        for y in view.ys
        for title, members in facets.items()
    ]


def _faceted(runs: Sequence[Record], view: View) -> dict[str, list[Record]]:
    return parted(runs, lambda run: _named(run, view.facet) if view.facet else "")


def mixed(runs: Sequence[Record], view: View) -> dict[str, list[str]]:
    """The environments of each curve that averages several, by its label."""
    names = renamed(runs, view)
    found: dict[str, list[str]] = {}
    for members in _faceted(runs, view).values():
        groups = parted(members, lambda run: names[label(run, view)])
        for name, group in groups.items():
            envs = parted(group, lambda run: run.config["env"])
            found |= {name: list(envs)} if len(envs) > 1 else {}
    return found


def renamed(runs: Sequence[Record], view: View) -> dict[str, str]:
    """What each label is called in the legend."""
    for key in view.group:
        _refuse_unknown_setting(runs, key)
    labels = list(parted(runs, lambda run: label(run, view)))
    if view.legend and len(view.legend) != len(labels):
        raise UserError(
            f"--legend has {len(view.legend)} names, but there are {len(labels)} "
            f"curves: {', '.join(labels)}"
        )
    return dict(zip(labels, view.legend or labels, strict=True))


def _refuse_unknown_setting(runs: Sequence[Record], name: str) -> None:
    if any(run.setting(name) is not None for run in runs):
        return
    known = runs[0].config.keys() | runs[0].config["settings"].keys()
    raise UserError(f"the runs have no setting {name!r}{suggestion(name, known)}")


def parted(
    runs: Iterable[Record], key: Callable[[Record], str]
) -> dict[str, list[Record]]:
    """The runs by what `key` says of them, in the order found."""
    parts: dict[str, list[Record]] = {}
    for run in runs:
        parts.setdefault(key(run), []).append(run)
    return parts


def label(run: Record, view: View) -> str:
    """What its curve is called."""
    if view.each_run:
        return run.name
    parts = [_named(run, key) for key in view.group]
    if view.facet == "env" and view.group[0] == "exp_name":
        # Names made by default end in the environment, which the title says.
        parts[0] = parts[0].removesuffix(f"-{run.config['env']}")
    return ", ".join(parts)


def _named(run: Record, key: str) -> str:
    """The value of a setting, with its name where the value alone says too little."""
    value = str(run.setting(key))
    return value if key in ("exp_name", "algo", "env") else f"{key} {value}"


def _panel(
    title: str,
    y: str,
    runs: Sequence[Record],
    view: View,
    names: dict[str, str],
) -> Panel:
    groups = parted(runs, lambda run: names[label(run, view)])
    curves = [_curve(name, group, y, view) for name, group in groups.items()]
    return Panel(title, y, {run.config["env"] for run in runs}, curves)


def _curve(label: str, runs: Sequence[Record], y: str, view: View) -> Curve:
    series = [_series(run, y, view) for run in runs]
    x, ys = statistics.on_common_grid(series)
    if not len(x):
        raise UserError(
            f"the runs of {label} share no {view.x}; draw each with --count"
        )
    estimate = statistics.ESTIMATES[view.est]
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
            f"{view.x} does not grow along {run.path}, so it cannot be the x axis; "
            f"take {STEPS}, Epoch or Time"
        )
    return x[known], statistics.smooth(values[known], view.smooth)


def column(run: Record, name: str) -> np.ndarray:
    """A column of progress.csv; `Performance` is the first of `RETURNS` it has."""
    return run.progress[_in_the_log(run, name)]


def _in_the_log(run: Record, name: str) -> str:
    """What a column is called there."""
    if name != PERFORMANCE:
        return name
    return next((wish for wish in RETURNS if wish in run.progress), RETURNS[-1])


def refuse_unknown_columns(runs: Sequence[Record], names: Iterable[str]) -> None:
    """Every one of them must be a column of every run."""
    for name in names:
        having = sum(_in_the_log(run, name) in run.progress for run in runs)
        if 0 < having < len(runs):
            raise UserError(
                f"only {having} of {len(runs)} runs have {name!r}; choose them with "
                "--select, or another column"
            )
        if not having:
            known = dict.fromkeys(column for run in runs for column in run.progress)
            raise UserError(
                f"there is no column {name!r} among {', '.join(known)}"
                f"{suggestion(name, known)}"
            )


# Spinning Up's published curves


def spinup(panel: Panel, view: View) -> list[Curve]:
    """Mean and standard deviation over ten seeds, as far as the panel's curves go."""
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
    with SPINUP.open() as file:
        for row in csv.DictReader(file):
            if row["env"] == env:
                values = [float(row[name]) for name in ("steps", "mean", "sd")]
                curves.setdefault((row["backend"], row["algo"]), []).append(values)
    return {key: np.array(values) for key, values in curves.items()}


def _reference(backend: str, algo: str, rows: np.ndarray, end: float) -> Curve:
    """Up to `end` and never beyond its own ends; empty if it begins only later."""
    steps, mean, sd = rows.T
    x = np.append(steps[steps < end], end)
    x = x[(x >= steps[0]) & (x <= steps[-1])]
    y, spread = np.interp(x, steps, mean), np.interp(x, steps, sd)
    label = f"Spinning Up's {algo}, {backend}"
    return Curve(label, 10, algo, x, y, y - spread, y + spread, float(steps[-1]))
