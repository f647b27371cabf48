"""Checkpoints: the exact state of a run, which a resume finds however the run ended.

    checkpoints/<n>/arrays/         every array, by orbax
    checkpoints/<n>/rest.json       all else, and where each array is
    checkpoints/<n>/run.yaml        the run, and its table so far
    checkpoints/<n>/progress.csv
    checkpoints/<n>/manifest.json   SHA-256 of every file, written last
    replay/<first>-<end>.npy        rows of the replay buffer, one file per increment

A checkpoint without a manifest was not finished; one whose files differ from it is
damaged.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl import files
from jaxrl.errors import UserError
from jaxrl.parallel import mpi
from jaxrl.runs import arrays
from jaxrl.runs.reading import MANIFEST, saved_checkpoints

FORMAT = 2  # of rest.json; 1 had no such number


class Damaged(Exception):
    """A checkpoint that is not what was saved."""


class OtherFormat(Exception):
    """A checkpoint of another version of jaxrl."""


Segment = tuple[int, int]  # insertions into a replay buffer: first, and one past last


class Saved(NamedTuple):
    """What a checkpoint holds.

    `rows` are a replay buffer's: when saving, those inserted from `first` on; when
    read, all. With several processes a row is [processes, width].
    """

    content: dict[str, Any]
    config: str
    progress: str
    rows: np.ndarray | None = None
    first: int = 0
    segments: Mapping[Segment, str] = {}
    """The files of the rows, with their checksums."""
    number: int = 0
    """Of the checkpoint it was read from."""


def checkpoint_path(run: Path, number: int) -> Path:
    """The directory of a checkpoint."""
    return run / "checkpoints" / str(number)


def segment_path(run: Path, segment: Segment) -> Path:
    """The file of a part of the replay buffer."""
    return run / "replay" / f"{segment[0]}-{segment[1]}.npy"


def checksum(file: Path, sync: bool = False) -> str:
    """Of a regular file that fits into memory."""
    with files.open_regular(file, files.MEMORY) as stream:
        if sync:
            os.fsync(stream.fileno())
        return hashlib.file_digest(stream, "sha256").hexdigest()


# Reading


def newest(
    run: Path, rows: bool = True, numbers: Sequence[int] | None = None
) -> tuple[Saved | None, list[str]]:
    """The newest good checkpoint; what is wrong with newer ones.

    Without `rows`, the replay buffer is not read. `numbers` are those to look at.
    """
    complaints: list[str] = []
    for number in reversed(saved_checkpoints(run) if numbers is None else numbers):
        try:
            saved = _read(run, checkpoint_path(run, number), rows)
            return saved._replace(number=number), complaints
        except OtherFormat as error:
            complaints.append(f"checkpoint {number} cannot be read: {error}")
        except Exception as damage:  # a file from elsewhere can raise anything
            reason = " ".join(str(damage).split())[:200]
            complaints.append(f"checkpoint {number} is damaged: {reason}")
    return None, complaints


def saved_step(run: Path) -> int | None:
    """Of the newest checkpoint, which is not verified; None without one."""
    numbers = saved_checkpoints(run)
    try:
        rest = checkpoint_path(run, numbers[-1]) / "rest.json"
        content = json.loads(files.read_text(rest, files.TABLE, inside=run))["content"]
        return int(content["env_steps"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _read(run: Path, path: Path, rows: bool) -> Saved:
    sums = read_manifest(path)
    if not rows:
        sums = {name: x for name, x in sums.items() if not name.startswith("..")}
    _verify(path, sums)
    rest = json.loads(_text(path / "rest.json"))
    if (found := rest.get("format", 1)) != FORMAT:
        raise OtherFormat(
            f"it has format {found}, and this version of jaxrl reads format {FORMAT}"
        )
    content = arrays.load(path / "arrays", rest)
    steps = content.get("env_steps")
    if type(steps) is not int or not 0 <= steps < 2**63:  # True is an int, too
        raise Damaged("its number of steps is missing or invalid")
    config, progress = _text(path / "run.yaml"), _text(path / "progress.csv")
    segments = _segments(sums)
    if not segments:
        return Saved(content, config, progress)
    kept = np.concatenate([_rows(segment_path(run, one)) for one in segments])
    return Saved(content, config, progress, kept, min(segments)[0], segments)


def _text(file: Path) -> str:
    return files.read_text(file, files.TABLE, inside=file.parent)


def _rows(file: Path) -> np.ndarray:
    with files.open_regular(file, files.MEMORY, inside=file.parent) as stream:
        return np.load(stream, allow_pickle=False)


def _segments(sums: Mapping[str, str]) -> dict[Segment, str]:
    """Those of a manifest, in order."""
    found = {}
    for name, total in sums.items():
        if Path(name).suffix == ".npy":
            first, end = Path(name).stem.split("-")
            found[int(first), int(end)] = total
    return dict(sorted(found.items()))


def read_manifest(path: Path) -> dict[str, str]:
    """The SHA-256 of each file of a checkpoint."""
    try:
        # In the run, also if the directory of its checkpoints is a link.
        run = path.parent.parent
        sums = json.loads(files.read_text(path / MANIFEST, inside=run))
    except (OSError, ValueError, RecursionError) as error:
        raise Damaged(f"{MANIFEST} cannot be read ({error})") from None
    if not isinstance(sums, dict):
        raise Damaged(f"{MANIFEST} is not a table of checksums")
    return sums


def _verify(path: Path, sums: Mapping[str, str]) -> None:
    needed = {"rest.json", "run.yaml", "progress.csv"}
    if absent := needed - sums.keys():
        raise Damaged(f"{MANIFEST} lacks {', '.join(sorted(absent))}")
    inside = {os.path.relpath(file, path) for file in _files_in(path)}
    listed = {name for name in sums if not name.startswith("..")} | {MANIFEST}
    if differing := inside ^ listed:
        raise Damaged(f"{', '.join(sorted(differing))} is missing or was added")
    replay = path.parent.parent.resolve() / "replay"
    for name, known in sums.items():
        file = _resolved(path / name)
        if name.startswith("..") and file.parent != replay:
            raise Damaged(f"{MANIFEST} names {name}, which is outside the run")
        if not file.exists() or checksum(file) != known:
            raise Damaged(f"{file.name} is missing or has changed since it was saved")


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (RuntimeError, ValueError):  # links that lead to each other, or a NUL
        raise Damaged(f"{path.name!r} cannot be found") from None


def _files_in(path: Path) -> Iterator[Path]:
    """Raises for what tensorstore might wait for, or follow out of the run."""
    for entry in path.rglob("*"):
        mode = entry.lstat().st_mode
        if stat.S_ISREG(mode):
            yield entry
        elif not stat.S_ISDIR(mode):
            raise Damaged(f"{entry.name} is not a regular file")


def broadcast(found: tuple[Saved | None, list[str]]) -> tuple[Saved | None, list[str]]:
    """What `newest` found on rank 0, on every rank; each gets its own replay rows."""
    if mpi.size() == 1:
        return found
    saved, complaints = found
    rows = saved.rows if saved else None
    others = saved.content.get("ranks") if saved else None
    if saved and (not isinstance(others, list) or len(others) + 1 != mpi.size()):
        raise UserError(
            f"there are {mpi.size()} processes, but the run had another number; jaxrl "
            "resume without mpirun starts as many as it needs"
        )
    shape = None if rows is None else [len(rows), *rows.shape[2:]]
    plain = saved._replace(rows=None, segments={}) if saved else None
    sent = arrays.to_bytes([list(plain) if plain else None, complaints, shape])
    plain, complaints, shape = arrays.from_bytes(mpi.bcast_bytes(sent))
    if plain is None:
        return None, complaints
    own = None if shape is None else mpi.scatter(rows, tuple(shape), np.float32)
    segments = saved.segments if saved else {}
    return Saved(*plain)._replace(rows=own, segments=segments), complaints
