"""What a report tells of runs, as data for its page.

A curve is one column of one run. Each number of it is a float32 rounded to three
bytes (more than four digits), which base64 turns into four characters; equal curves,
such as the steps of runs alike, are kept once.
"""

import base64
import dataclasses
import datetime
import itertools
import math
import mimetypes
import os
import urllib.parse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl import __version__
from jaxrl.errors import UserError
from jaxrl.runs import failures, reading
from jaxrl.runs.overview import glance
from jaxrl.runs.reading import Record
from jaxrl.show import curves, plot

SUFFIXES = (".mp4", ".webm", ".gif")
EMBEDDED = 1_000_000  # bytes of videos that the page holds itself; more are linked
NUMBERS = 800_000  # of all curves together, four bytes each
LARGEST = 2**53  # beyond it JavaScript skips whole numbers
LONGEST = 300  # characters of a setting
MOST, LEAST = 400, 2  # points of a curve: what a screen shows, and what is a line


class Lost(NamedTuple):
    """A run of which there is nothing to show but why."""

    path: Path
    state: str
    cause: str


class Found(NamedTuple):
    """Runs that can be read, and those that cannot."""

    title: str
    runs: list[Record]
    damaged: list[Lost]
    failed_to_start: list[Lost]


def gathered(patterns: Sequence[str]) -> Found:
    """The runs at or under what paths and globs name."""
    runs, damaged = [], []
    directories = reading.directories(patterns)
    for path in directories:
        try:
            run = reading.record(path)
            _ = run.progress  # refuses a damaged one
            runs.append(run)
        except UserError as error:
            damaged.append(Lost(path, "damaged", str(error)))
    if not runs:
        raise UserError(damaged[0].cause)
    roots = [Path(pattern) for pattern in patterns if os.path.isdir(pattern)]
    absent = [
        Lost(path, "failed", failures.failure_reason(path))
        for path in failures.failed_to_start(roots)
    ]
    if not any(run.progress or run.state == "failed" for run in runs) and not absent:
        curves.with_data(runs)  # says so
    return Found(_title(patterns, directories), runs, damaged, absent)


def _title(patterns: Sequence[str], directories: Sequence[Path]) -> str:
    if len(directories) == 1:
        return directories[0].resolve().name
    return ", ".join(
        Path(p).resolve().name if os.path.isdir(p) else p for p in patterns
    )


def content(found: Found, beside: Path) -> dict[str, Any]:
    """All that the page shows; it is to be written into the directory `beside`."""
    runs = found.runs
    settings = [_settings(run) for run in runs]
    differing, common = compared(settings)
    store = Curves(runs)
    machines = Distinct()
    films = _films(runs, beside)
    rows = [
        _row(run)
        | {"settings": {key: own[key] for key in differing if key in own}}
        | {"curves": store.add(run), "videos": films[run.path]}
        | {"machine": machines.add(_machine(run))}
        for run, own in zip(runs, settings, strict=True)
    ]
    now = datetime.datetime.now().astimezone()
    return {
        "title": found.title,
        "made": f"jaxrl {__version__}, {now:%Y-%m-%d %H:%M %Z}",
        "labels": plot.LABELS,
        "colours": plot.COLOURS,
        "differing": differing,
        "common": common,
        "columns": store.columns,
        "thinned": [store.points, store.longest],
        "machines": machines.items,
        "runs": rows + [_lost(one) for one in (*found.damaged, *found.failed_to_start)],
        "curves": store.texts,
    }


# A run as a row of the table


def _row(run: Record) -> dict[str, Any]:
    seen = glance(run)
    ended = seen.state in ("failed", "interrupted")
    cause = failures.failure_reason(run.path) if ended else ""
    seconds = _latest(run, "Time")
    return _lost(Lost(run.path, seen.state, cause)) | {
        "group": str(run.config["exp_name"]),
        "env": str(run.config["env"]),
        "taken": seen.steps,
        "total": seen.total_steps,
        "last": _finite(seen.last),
        "best": _finite(seen.best),
        "seconds": seconds,
        "speed": seen.steps / seconds if seconds else None,  # of the whole run
    }


def _lost(one: Lost) -> dict[str, Any]:
    return {
        "name": one.path.name,
        "path": str(one.path),
        "state": one.state,
        "cause": one.cause,
    }


def _latest(run: Record, name: str) -> float | None:
    values = run.progress.get(name, np.empty(0))
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _machine(run: Record) -> dict[str, Any]:
    """What it ran on, in words."""
    known = run.config.get("machine")
    machine = known if isinstance(known, dict) else {}
    return {str(key): _plain(value) for key, value in machine.items() if value}


# Settings


def _settings(run: Record) -> dict[str, Any]:
    """By name; of a mapping, such as `env_kwargs`, each part."""
    found: dict[str, Any] = {}
    for key, value in reading.determining(run.config).items():
        if isinstance(value, dict):
            found |= {f"{key}:{part}": _plain(x) for part, x in value.items()}
        elif value is not None:
            found[str(key)] = _plain(value)
    return found


def compared(
    settings: Sequence[dict[str, Any]],
) -> tuple[list[str], dict[str, Any]]:
    """The names of settings that differ among runs that have them, and the others."""
    names = dict.fromkeys(itertools.chain(*settings))
    values = {
        name: {repr(own[name]): own[name] for own in settings if name in own}
        for name in names
    }
    differing = [name for name in names if len(values[name]) > 1]
    same = {name: next(iter(values[name].values())) for name in names}
    return differing, {k: x for k, x in same.items() if k not in differing}


def _plain(value: Any) -> Any:
    """A number that JavaScript knows as it is, anything else in words."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return value if real and abs(value) < LARGEST else _in_words(value)[:LONGEST]


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {x}" for key, x in value.items())
    return str(value)


# Curves


@dataclasses.dataclass
class Distinct:
    """Things in order, equal ones once."""

    items: list[Any] = dataclasses.field(default_factory=list)
    _places: dict[str, int] = dataclasses.field(default_factory=dict)

    def add(self, item: Any) -> int:
        """Where it is."""
        place = self._places.setdefault(repr(item), len(self.items))
        if place == len(self.items):
            self.items.append(item)
        return place


class Curves:
    """The columns of all runs, thinned until together they are not too many."""

    def __init__(self, runs: Sequence[Record]) -> None:
        names = dict.fromkeys(name for run in runs for name in run.progress)
        width = sum(len(run.progress) for run in runs)
        self.columns = [curves.PERFORMANCE, *names]
        self.longest = max(map(_epochs, runs))
        self.points = max(min(NUMBERS // max(width, 1), MOST), LEAST)
        self._texts = Distinct()

    @property
    def texts(self) -> list[str]:
        return self._texts.items

    def add(self, run: Record) -> list[int]:
        """Where each of `columns` is; -1 for one that the run lacks."""
        rows = _evenly(_epochs(run), self.points)
        progress = run.progress | {curves.PERFORMANCE: reading.returns(run.progress)}
        return [
            self._texts.add(packed(progress[name][rows]))
            if len(progress.get(name, ()))
            else -1
            for name in self.columns
        ]


def _epochs(run: Record) -> int:
    return len(next(iter(run.progress.values()), ()))


def _evenly(count: int, points: int) -> np.ndarray:
    """So many of `count` rows, the first and the last among them."""
    return np.unique(np.linspace(0, max(count - 1, 0), points).round().astype(int))


def packed(values: np.ndarray) -> str:
    """The upper three bytes of each float32, rounded."""
    with np.errstate(over="ignore"):
        bits = values.astype(np.float32).view(np.uint32) + np.uint32(0x80)
    octets = bits.astype(">u4").view(np.uint8).reshape(-1, 4)
    return base64.b64encode(octets[:, :3].tobytes()).decode()


# Videos


def _films(runs: Iterable[Record], beside: Path) -> dict[Path, list[dict[str, str]]]:
    """Those in the runs' directories; inside the page where all are small."""
    files = {run.path: _video_files(run.path) for run in runs}
    size = sum(file.stat().st_size for file in itertools.chain(*files.values()))
    source = _embedded if size < EMBEDDED else lambda file: _linked(file, beside)
    return {
        path: [{"name": file.name, "source": source(file)} for file in found]
        for path, found in files.items()
    }


def _video_files(run: Path) -> list[Path]:
    inside = [*run.glob("*"), *run.glob("videos/**/*")]
    return sorted(f for f in inside if f.suffix in SUFFIXES and f.is_file())


def _embedded(file: Path) -> str:
    kind = mimetypes.guess_type(file.name)[0]
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"


def _linked(file: Path, beside: Path) -> str:
    path = os.path.relpath(file.absolute(), beside)
    return urllib.parse.quote(path)
