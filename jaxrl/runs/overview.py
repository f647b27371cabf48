"""The state of a run in a line. Free of JAX, as all that reads runs."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxrl.errors import UserError
from jaxrl.logging.columns import STEPS
from jaxrl.runs import failures, finding, reading, status
from jaxrl.runs.reading import Record

BROKEN = ("failed", "interrupted")


class Overview(NamedTuple):
    """A run in a line of `ls`."""

    run: str
    state: str
    steps: int = 0
    total_steps: int = 0
    last: float | None = None
    best: float | None = None
    """Returns of an epoch: of its test episodes, or else the training's."""
    last5: float | None = None
    """Mean return of the last five epochs."""
    age: float = 0.0
    """Seconds since its last write."""
    size: int = 0
    """Bytes."""
    reason: str = ""
    """Why it is damaged, failed, or was killed."""


def overview(path: Path) -> Overview:
    """Of the run in the directory, also of one whose files are damaged."""
    size = _size(path)
    age = max(time.time() - _last_write(path), 0.0)
    try:
        record = reading.record(path)
        return glance(record)._replace(age=age, size=size)
    except UserError as error:
        reason = str(error)
        return Overview(str(path), "damaged", age=age, size=size, reason=reason)


def overviews(patterns: Iterable[str]) -> list[Overview]:
    """Of the runs that paths and globs name, with those that failed to start."""
    found: dict[str, Overview] = {}
    for pattern in patterns:
        found |= {os.path.realpath(one.run): one for one in _overviews(pattern)}
    return list(found.values())


def _overviews(pattern: str) -> list[Overview]:
    roots = finding.named(pattern)
    others = [_failed_to_start(path) for path in failures.failed_to_start(roots)]
    others += [_unlogged(path) for path in failures.finished_without_log(roots)]
    try:
        started = [overview(path) for path in finding.directories([pattern])]
    except UserError:  # no run at all is a mistake only where none tried to start
        if not others:
            raise
        started = []
    return sorted(others + started, key=lambda one: finding.in_order(one.run))


def _unlogged(path: Path) -> Overview:
    """Of a call of a user's function, of which only its end is known."""
    age = max(time.time() - status.outcome_file(path).lstat().st_mtime, 0.0)
    return Overview(str(path), "finished", age=age, size=_size(path))


def _size(path: Path) -> int:
    return sum(file.lstat().st_size for file in path.rglob("*") if file.is_file())


def _failed_to_start(path: Path) -> Overview:
    outcome = status.outcome_file(path).lstat()
    age = max(time.time() - outcome.st_mtime, 0.0)
    reason = failures.failure_reason(path)
    return Overview(str(path), "failed", age=age, size=outcome.st_size, reason=reason)


def glance(record: Record) -> Overview:
    """Of a run that can be read, without its age and size."""
    progress, known = record.progress, record.status
    logged = int(np.nan_to_num(progress.get(STEPS, np.zeros(1))[-1]))
    # A run that was interrupted within an epoch has taken more than its last row says.
    steps = max(logged, known.step if known else 0)
    returns = reading.returns(progress)
    finite = returns[~np.isnan(returns)]
    return Overview(
        str(record.path),
        state := record.state,
        steps,
        record.total_steps,
        float(finite[-1]) if len(finite) else None,
        float(finite.max()) if len(finite) else None,
        reading.mean_return(returns),
        # A signal that a user sent needs no explanation.
        reason=known.reason if known and state in BROKEN and not known.signal else "",
    )


def _last_write(path: Path) -> float:
    names = ("config.yaml", "progress.csv", status.FILE)
    files = (path / name for name in names)
    return max(file.lstat().st_mtime for file in files if os.path.lexists(file))
