"""Runs to show: found by path, selected by pattern, grouped by setting."""

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from jaxrl.errors import UserError, suggestion
from jaxrl.runs import finding, reading
from jaxrl.runs.reading import Record


def find_runs(
    patterns: Iterable[str], exclude: Sequence[str]
) -> tuple[list[Record], list[str]]:
    """The runs at or under `patterns`, and what is wrong with those that are damaged.

    One excluded by name is not even read.
    """
    found = finding.directories(patterns)
    runs, damages = finding.readable(
        path
        for path in found
        if not any(_name_matches(path, pattern) for pattern in exclude)
    )
    for run in runs:
        if run.is_own_loop:  # which may log anything
            continue
        if run.progress and not len(reading.returns(run.progress)):
            damages[run.path] = f"{run.path}/progress.csv is damaged: it has no returns"
    runs = [run for run in runs if run.path not in damages]
    if damages and not runs:
        raise UserError(next(iter(damages.values())))
    return runs, list(damages.values())


def select(
    runs: Iterable[Record], select: Sequence[str], exclude: Sequence[str]
) -> list[Record]:
    """The runs that match any of `select`, if it has any, and none of `exclude`."""
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
    return _name_matches(run.path, pattern) or fnmatch.fnmatchcase(experiment, pattern)


def _name_matches(run: Path, pattern: str) -> bool:
    names = (run.resolve().name, str(run))
    return any(fnmatch.fnmatchcase(name, pattern) for name in names)


def split_by_data(runs: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """The runs that have logged a row, and those that have not."""
    kept = [run for run in runs if run.progress]
    if not kept:
        raise UserError(f"{runs[0].path} has {why_empty(runs[0])}")
    return kept, [run for run in runs if not run.progress]


def why_empty(run: Record) -> str:
    """Whether a run without a row will still log one."""
    if run.state == "running":
        return "no data yet; its first epoch is not finished"
    return "no finished epoch in progress.csv"


def group_by(
    runs: Iterable[Record], key: Callable[[Record], str]
) -> dict[str, list[Record]]:
    """The runs by `key`, in the order found."""
    groups: dict[str, list[Record]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def check_setting(runs: Sequence[Record], name: str) -> None:
    """Raises if no run has the setting."""
    if any(run.setting(name) is not None for run in runs):
        return
    known = runs[0].config.keys() | runs[0].config["settings"].keys()
    raise UserError(f"the runs have no setting {name!r}{suggestion(name, known)}")
