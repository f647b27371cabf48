"""The data of a report's page: runs, settings, curves, machines and videos."""

import base64
import datetime
import itertools
import math
import mimetypes
import os
import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl import __version__, files
from jaxrl.errors import UserError
from jaxrl.runs import failures, finding, reading
from jaxrl.runs.overview import glance
from jaxrl.runs.reading import Record
from jaxrl.show import page, plot, selection
from jaxrl.show.packing import PackedCurves, UniqueList
from jaxrl.show.writing import writing

SUFFIXES = (".mp4", ".webm", ".gif")
MAX_EMBEDDED = 1_000_000  # bytes of videos inside the page; more are linked
MAX_NUMBER = 2**53  # beyond it JavaScript cannot represent every whole number
MAX_TEXT = 300  # characters of a setting


class FailedRun(NamedTuple):
    """A run without data: only its state and the cause are shown."""

    path: Path
    state: str
    cause: str


class ReportRuns(NamedTuple):
    """Runs that can be read, and those that cannot."""

    title: str
    runs: list[Record]
    damaged: list[FailedRun]
    failed_to_start: list[FailedRun]


def write(patterns: Sequence[str], output: Path, note: Callable[[str], None]) -> int:
    """Writes the page of the runs at or under the paths; returns their number."""
    found = collect_runs(patterns)
    with writing(output, (".html",)) as path:
        content = page_data(found, output.absolute().parent)
        path.write_text(page.render(content), "utf-8", errors="replace")
    for run in found.damaged:
        note(f"{run.cause}; listed as not finished")
    return len(content["runs"])


def collect_runs(patterns: Sequence[str]) -> ReportRuns:
    """The runs at or under what paths and globs name."""
    directories = finding.directories(patterns)
    runs, damages = finding.readable(directories)
    damaged = [FailedRun(path, "damaged", why) for path, why in damages.items()]
    if not runs:
        raise UserError(damaged[0].cause)
    roots = [Path(pattern) for pattern in patterns if os.path.isdir(pattern)]
    absent = [
        FailedRun(path, "failed", failures.failure_reason(path))
        for path in failures.failed_to_start(roots)
    ]
    if not any(run.progress or run.state == "failed" for run in runs) and not absent:
        selection.split_by_data(runs)  # raises with the reason
    return ReportRuns(_title(patterns, directories), runs, damaged, absent)


def _title(patterns: Sequence[str], directories: Sequence[Path]) -> str:
    if len(directories) == 1:
        return directories[0].resolve().name
    return ", ".join(
        Path(p).resolve().name if os.path.isdir(p) else p for p in patterns
    )


def page_data(found: ReportRuns, folder: Path) -> dict[str, Any]:
    """All that the page shows; `folder` is where the page will be written."""
    runs = found.runs
    settings = [_settings(run) for run in runs]
    differing, common = compare_settings(settings)
    store = PackedCurves(runs)
    machines = UniqueList()
    videos = _videos(runs, folder)
    rows = [
        _row(run)
        | {"settings": {key: own[key] for key in differing if key in own}}
        | {"curves": store.add(run), "videos": videos[run.path]}
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
        "runs": rows + list(map(_failed_row, found.damaged + found.failed_to_start)),
        "curves": store.texts,
    }


# A run as a row of the table


def _row(run: Record) -> dict[str, Any]:
    seen = glance(run)
    ended = seen.state in ("failed", "interrupted")
    cause = failures.failure_reason(run.path) if ended else ""
    seconds = _latest(run, "Time")
    return _failed_row(FailedRun(run.path, seen.state, cause)) | {
        "group": str(run.config["exp_name"]),
        "env": str(run.config["env"]),
        "taken": seen.steps,
        "total": seen.total_steps,
        "last": _finite(seen.last),
        "best": _finite(seen.best),
        "seconds": seconds,
        "speed": seen.steps / seconds if seconds else None,  # of the whole run
    }


def _failed_row(one: FailedRun) -> dict[str, Any]:
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
    """The hardware it ran on, as text and numbers."""
    known = run.config.get("machine")
    machine = known if isinstance(known, dict) else {}
    return {str(key): _json_value(value) for key, value in machine.items() if value}


# Settings


def _settings(run: Record) -> dict[str, Any]:
    """By name; mappings such as `env_kwargs` are flattened to `name:key`."""
    found: dict[str, Any] = {}
    for key, value in reading.determining(run.config).items():
        if isinstance(value, dict):
            found |= {f"{key}:{part}": _json_value(x) for part, x in value.items()}
        elif value not in (None, ""):
            found[str(key)] = _json_value(value)
    return found


def compare_settings(
    settings: Sequence[dict[str, Any]],
) -> tuple[list[str], dict[str, Any]]:
    """The names of settings that differ between runs, and the values of the others."""
    names = dict.fromkeys(itertools.chain(*settings))
    values = {
        name: {repr(own[name]): own[name] for own in settings if name in own}
        for name in names
    }
    differing = [name for name in names if len(values[name]) > 1]
    same = {name: next(iter(values[name].values())) for name in names}
    return differing, {k: x for k, x in same.items() if k not in differing}


def _json_value(value: Any) -> Any:
    """A number that JavaScript represents exactly; anything else as text."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return value if real and abs(value) < MAX_NUMBER else _as_text(value)[:MAX_TEXT]


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {x}" for key, x in value.items())
    return str(value)


# Videos


def _videos(runs: Iterable[Record], folder: Path) -> dict[Path, list[dict[str, str]]]:
    """Those in each run's directory; embedded in the page if all are small."""
    videos = {run.path: _video_files(run.path) for run in runs}
    size = sum(file.stat().st_size for file in itertools.chain(*videos.values()))
    embed = size < MAX_EMBEDDED
    return {
        path: [
            {
                "name": file.name,
                "source": _embedded(file, path) if embed else _linked(file, folder),
            }
            for file in found
        ]
        for path, found in videos.items()
    }


def _video_files(run: Path) -> list[Path]:
    inside = [*run.glob("*"), *run.glob("videos/**/*")]
    named = sorted(file for file in inside if file.suffix in SUFFIXES)
    return [file for file in named if files.is_regular(file, run)]


def _embedded(file: Path, run: Path) -> str:
    kind = mimetypes.guess_type(file.name)[0]
    data = files.read_bytes(file, MAX_EMBEDDED, inside=run)
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _linked(file: Path, folder: Path) -> str:
    path = os.path.relpath(file.absolute(), folder)
    return urllib.parse.quote(path)
