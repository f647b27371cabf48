"""A run at a glance. Free of JAX, as all that reads runs."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxrl.errors import UserError
from jaxrl.logging.columns import STEPS
from jaxrl.runs import failures, reading
from jaxrl.runs.reading import Record


class Overview(NamedTuple):
    """What can be told of a run in a line."""

    run: str
    state: str
    steps: int = 0
    total_steps: int = 0
    last: float | None = None
    best: float | None = None
    """Returns of an epoch: of its test episodes, or else the training's."""
    age: float = 0.0
    """Seconds since its last sign of life."""
    size: int = 0
    """Bytes."""


def overview(path: Path) -> Overview:
    """Of the run in the directory, also of one whose files are damaged."""
    size = sum(file.lstat().st_size for file in path.rglob("*") if file.is_file())
    age = max(time.time() - _latest_sign(path), 0.0)
    try:
        record = reading.record(path)
        return glance(record)._replace(age=age, size=size)
    except UserError:
        return Overview(str(path), "damaged", age=age, size=size)


def overviews(patterns: Iterable[str]) -> list[Overview]:
    """Of the runs that paths and globs name, with those that failed to begin."""
    found: dict[Path, Overview] = {}
    for pattern in patterns:
        found |= {Path(one.run).resolve(): one for one in _overviews(pattern)}
    return list(found.values())


def _overviews(pattern: str) -> list[Overview]:
    lost = [_never_begun(path) for path in failures.never_begun(reading.named(pattern))]
    try:
        begun = [overview(path) for path in reading.directories([pattern])]
    except UserError:  # that none was begun is no mistake where some have failed to
        if not lost:
            raise
        begun = []
    return sorted(lost + begun, key=lambda one: one.run)


def _never_begun(path: Path) -> Overview:
    printed = failures.printed_by(path).stat()
    age = max(time.time() - printed.st_mtime, 0.0)
    return Overview(str(path), "failed", age=age, size=printed.st_size)


def glance(record: Record) -> Overview:
    """Of a run that can be read, without its age and size."""
    progress = record.progress
    steps = progress.get(STEPS, np.zeros(1))
    returns = reading.returns(progress)
    known = returns[~np.isnan(returns)]
    return Overview(
        str(record.path),
        record.state,
        int(np.nan_to_num(steps[-1])),
        record.total_steps,
        float(known[-1]) if len(known) else None,
        float(known.max()) if len(known) else None,
    )


def _latest_sign(path: Path) -> float:
    files = (path / name for name in ("config.yaml", "progress.csv"))
    return max(file.stat().st_mtime for file in files if file.exists())
