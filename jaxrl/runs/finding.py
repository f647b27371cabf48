"""Finds runs: at and under the paths and globs that a user names."""

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path

from jaxrl.errors import UserError
from jaxrl.runs.reading import CONFIG, Record, record

KEPT = re.compile(r"\.kept-\d+$")  # ends the name of what was moved out of the way


def readable(paths: Iterable[Path]) -> tuple[list[Record], dict[Path, str]]:
    """The runs in directories, and what is wrong with those that are damaged."""
    runs, damages = [], {}
    for path in paths:
        try:
            run = record(path)
            _ = run.progress, run.state  # raise if their files are damaged
            runs.append(run)
        except UserError as error:
            damages[path] = str(error)
    return runs, damages


def directories(patterns: Iterable[str]) -> list[Path]:
    """Those of the runs at or under what paths and globs name, each once."""
    found: dict[Path, Path] = {}
    for pattern in patterns:
        paths = named(pattern)
        runs = [run for path in paths for run in _runs_under(path)]
        if not paths:
            raise UserError(
                f"{pattern} does not exist; give directories of runs or globs"
            )
        if not runs:
            raise UserError(f"there is no run in {pattern}: no config.yaml under it")
        found |= {run.resolve(): run for run in runs}
    return list(found.values())


def named(pattern: str) -> list[Path]:
    """What is at a path, or else what a glob finds."""
    found = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
    return list(map(Path, found))


def in_order(path: str) -> list[tuple[int, str]]:
    """A key to sort paths by: numbers in them by their value, so s2 is before s10."""
    words = re.split(r"(\d+)", path)
    return [(int(word) if i % 2 else 0, word) for i, word in enumerate(words)]


def _runs_under(path: Path) -> list[Path]:
    """The directories with a config.yaml; what is inside of one is part of it.

    What was moved out of a run's way is found only where it is named itself.
    """
    found = []
    for directory, inner, names in os.walk(path):
        inner[:] = sorted(name for name in inner if not KEPT.search(name))
        if CONFIG in (*names, *inner):
            found.append(Path(directory))
            inner.clear()
    return found
