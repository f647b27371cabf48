"""`jaxrl.runs(path)`: runs from Python, with settings, status and progress.

Free of JAX, as all that reads runs.
"""

import collections
import dataclasses
import functools
import importlib.util
import os
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.errors import UserError
from jaxrl.logging.columns import RETURNS
from jaxrl.runs import failures, finding, reading
from jaxrl.runs.overview import glance
from jaxrl.runs.reading import Record
from jaxrl.settings.values import shown

if typing.TYPE_CHECKING:
    import pandas

Paths = typing.Any
"""Directories of runs, of many runs, or globs; what has a `directory`; or several."""


@dataclasses.dataclass(frozen=True)
class LoggedRun:
    """A run on the disk, as it was when it was listed."""

    directory: Path
    status: str
    """finished, running, interrupted, failed, pruned or damaged."""
    settings: dict[str, Any]
    reason: str = ""
    """Why it ended early or cannot be read."""
    steps: int = 0
    """Environment steps so far."""
    _record: Record | None = dataclasses.field(default=None, repr=False, compare=False)

    @classmethod
    def from_directory(cls, path: Path) -> "LoggedRun":
        """Reads a run; one that cannot be read is damaged."""
        try:
            record = reading.record(path)
            seen = glance(record)
        except UserError as error:
            return cls(path, "damaged", {}, str(error))
        known = {"exp_name": record.config["exp_name"]}
        known |= reading.determining(record.config)
        settings = {k: x for k, x in known.items() if x not in (None, "", {})}
        ended = seen.state in ("failed", "interrupted")
        reason = failures.failure_reason(path) if ended else ""
        return cls(path, seen.state, settings, reason, seen.steps, record)

    @property
    def name(self) -> str:
        """The name of the directory."""
        return self.directory.resolve().name

    @functools.cached_property
    def progress(self) -> dict[str, np.ndarray]:
        """The columns of progress.csv, with NaN for empty cells; {} before a row."""
        return self._record.progress if self._record else {}

    def __repr__(self) -> str:
        parts = [repr(str(self.directory)), self.status, f"{self.steps} steps"]
        for name in RETURNS:
            if name in self.progress:
                parts.append(f"{name} {self.progress[name][-1]:.1f}")
                break
        return f"LoggedRun({', '.join(parts)})"


class Runs(Sequence[LoggedRun]):
    """Runs in the order of their paths; by number, slice or name."""

    def __init__(self, runs: Iterable[LoggedRun]) -> None:
        self._runs = list(runs)

    def __len__(self) -> int:
        return len(self._runs)

    @typing.overload
    def __getitem__(self, which: int | str) -> LoggedRun: ...
    @typing.overload
    def __getitem__(self, which: slice) -> "Runs": ...
    def __getitem__(self, which: int | str | slice) -> "LoggedRun | Runs":
        if isinstance(which, slice):
            return Runs(self._runs[which])
        if not isinstance(which, str):
            return self._runs[which]
        found = [run for run in self if which in (run.name, str(run.directory))]
        if len(found) != 1:
            raise KeyError(f"{len(found)} of {len(self)} runs are named {which!r}")
        return found[0]

    def __repr__(self) -> str:
        counts = collections.Counter(run.status for run in self)
        states = ", ".join(f"{count} {state}" for state, count in counts.items())
        return f"Runs({len(self)}: {states})" if self else "Runs(0)"

    def frame(self) -> "pandas.DataFrame":
        """A pandas table with a row for each epoch of each run.

        Its columns: the run, the settings that differ between runs, and all columns of
        progress.csv.
        """
        if importlib.util.find_spec("pandas") is None:
            raise UserError("frame() needs pandas; install it with pip install pandas")
        import pandas

        with_rows = [run for run in self if run.progress]
        differing = _differing([run.settings for run in with_rows])
        columns = dict.fromkeys(c for run in with_rows for c in run.progress)
        tables = []
        for run in with_rows:
            rows = len(next(iter(run.progress.values())))
            cells: dict[str, Any] = {"run": [run.name] * rows}
            for name in differing:
                label = f"setting {name}" if name in (*columns, "run") else name
                cells[label] = [_cell(run.settings.get(name))] * rows
            empty = np.full(rows, np.nan)
            cells |= {name: run.progress.get(name, empty) for name in columns}
            tables.append(pandas.DataFrame(cells))
        return (
            pandas.concat(tables, ignore_index=True) if tables else pandas.DataFrame()
        )


def _differing(settings: Sequence[dict[str, Any]]) -> list[str]:
    """The names of settings that differ between runs."""
    names = dict.fromkeys(name for own in settings for name in own)
    return [
        name for name in names if len({repr(own.get(name)) for own in settings}) > 1
    ]


def _cell(value: Any) -> Any:
    """Lists as text, so that a table can be grouped by them."""
    if isinstance(value, dict):
        return str(value)
    return shown(value) if isinstance(value, list) else value


def as_paths(given: Paths) -> list[str]:
    """The paths in what a user gives: one or several, or what has a directory."""
    given = getattr(given, "directory", given)
    if isinstance(given, str | os.PathLike):
        return [os.fsdecode(given)]
    try:
        every = [getattr(one, "directory", one) for one in given]
    except TypeError:
        every = [given]
    if wrong := [one for one in every if not isinstance(one, str | os.PathLike)]:
        raise UserError(
            f"{wrong[0]!r:.80} is no path; give directories of runs or globs"
        )
    if not every:
        raise UserError("no path is given; give directories of runs or globs")
    return [os.fsdecode(one) for one in every]


def list_runs(paths: Paths = "runs") -> Runs:
    """The runs at or under paths and globs, also those that are damaged."""
    directories = finding.directories(as_paths(paths))
    found = sorted(directories, key=lambda path: finding.in_order(str(path)))
    return Runs(map(LoggedRun.from_directory, found))
