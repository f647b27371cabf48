"""Checkpoints: the exact state of a run, found again however the run ended.

    checkpoints/<n>/arrays/         every array, by orbax
    checkpoints/<n>/rest.json       all else, and where each array stands
    checkpoints/<n>/run.yaml        the run, and its table so far
    checkpoints/<n>/progress.csv
    checkpoints/<n>/manifest.json   SHA-256 of every file, written last
    replay/<first>-<end>.npy        the ring's rows, an increment each, summed too

What has no manifest was never finished; what does not agree with it is damaged.
"""

import concurrent.futures
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.errors import UserError
from jaxrl.parallel import mpi
from jaxrl.runs.reading import MANIFEST, saved_checkpoints

SHARE = 0.02  # of a run's time that its checkpoints may take
FIRST_COST = 0.5  # seconds of the first one, most of it to import orbax


class Damaged(Exception):
    """A checkpoint that is not what was saved."""


class NotSaved(OSError):
    """A checkpoint that could not be written; the one before is kept."""


Segment = tuple[int, int]  # insertions into a ring, from the first to before the end


class Saved(NamedTuple):
    """What a checkpoint holds.

    `rows` are a ring's: to be saved, those inserted from `first` on; read, all. Where
    several processes learn, a row is [processes, width].
    """

    content: dict[str, Any]
    config: str
    progress: str
    rows: np.ndarray | None = None
    first: int = 0
    segments: Mapping[Segment, str] = {}
    """Where the rows stand, with the sum of each file."""
    number: int = 0
    """Of the checkpoint it was read from."""


class Store:
    """Writes the checkpoints of one run, one at a time beside the training.

    The newest `keep` stay. The rows of the checkpoint it goes on from are never written
    again, so their sums are kept; checkpoints after that one are damaged.
    """

    def __init__(self, run: Path, keep: int, origin: Saved | None) -> None:
        self._run, self._keep = run, keep
        self._segments = dict(origin.segments) if origin else {}
        sound = origin.number if origin else 0
        self._damaged = [n for n in saved_checkpoints(run) if n > sound]
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._last: concurrent.futures.Future[None] | None = None
        self._next = max(saved_checkpoints(run), default=0) + 1
        self._spent, self._cost = 0.0, FIRST_COST

    def affordable(self, seconds: float) -> bool:
        """Whether another one keeps to its share of a run that took so long."""
        busy = self._last is not None and not self._last.done()
        return not busy and self._spent + self._cost < SHARE * seconds

    def save(self, saved: Saved, capacity: int = 0) -> None:
        """Begins to save; raises what went wrong with the one before."""
        self.wait()
        self._last = self._thread.submit(self._write, self._next, saved, capacity)
        self._next += 1

    def wait(self) -> None:
        """Until the last one is on the disk; raises if it could not be."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        self._thread.shutdown()

    def _write(self, number: int, saved: Saved, capacity: int) -> None:
        start = time.perf_counter()
        try:
            self._write_all(number, saved, capacity)
            self._cost = time.perf_counter() - start
            self._spent += self._cost
        except Exception as error:  # orbax has many names for a full disk
            reason = " ".join(str(error).split())[:200]
            raise NotSaved(
                f"checkpoint {number} could not be saved: {reason}"
            ) from error

    def _write_all(self, number: int, saved: Saved, capacity: int) -> None:
        path = _place(self._run, number)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        rest = _save_arrays(path / "arrays", saved.content)
        self._save_rows(saved, capacity)
        (path / "rest.json").write_text(json.dumps(rest))
        (path / "run.yaml").write_text(saved.config)
        (path / "progress.csv").write_text(saved.progress, newline="")
        files = [file for file in sorted(path.rglob("*")) if file.is_file()]
        known = {file: _sum(file, sync=True) for file in files}
        known |= {_segment(self._run, s): total for s, total in self._segments.items()}
        sums = {os.path.relpath(file, path): total for file, total in known.items()}
        replace(path / MANIFEST, json.dumps(sums, indent=1))
        self._prune()

    def _save_rows(self, saved: Saved, capacity: int) -> None:
        if saved.rows is None:
            return
        end = saved.first + len(saved.rows)
        if len(saved.rows):
            file = _segment(self._run, (saved.first, end))
            file.parent.mkdir(exist_ok=True)
            np.save(file, saved.rows, allow_pickle=False)
            self._segments[saved.first, end] = _sum(file, sync=True)
        oldest = end - capacity
        self._segments = {s: x for s, x in self._segments.items() if s[1] > oldest}

    def _prune(self) -> None:
        """Removes old checkpoints, and rows that none of those kept needs."""
        sound = [n for n in saved_checkpoints(self._run) if n not in self._damaged]
        for number in (*self._damaged, *sound[: -self._keep]):
            path = _place(self._run, number)
            (path / MANIFEST).unlink(missing_ok=True)  # first, so it is never half
            shutil.rmtree(path, ignore_errors=True)
        self._damaged = []
        needed = set().union(*map(self._rows_of, sound[-self._keep :]))
        for file in (self._run / "replay").glob("*.npy"):
            if file.name not in needed:
                file.unlink()

    def _rows_of(self, number: int) -> set[str]:
        """Names of the files that a checkpoint needs; none, if it cannot say."""
        try:
            return {Path(x).name for x in _manifest(_place(self._run, number))}
        except Damaged:  # an old one, from which nobody went on
            return set()


def newest(run: Path) -> tuple[Saved | None, list[str]]:
    """The newest one that holds what was saved; what is wrong with newer ones."""
    complaints: list[str] = []
    for number in reversed(saved_checkpoints(run)):
        try:
            saved = _read(run, _place(run, number))
            return saved._replace(number=number), complaints
        except Exception as damage:  # whatever a stranger's file can do
            reason = " ".join(str(damage).split())[:200]
            complaints.append(f"checkpoint {number} is damaged: {reason}")
    return None, complaints


def _place(run: Path, number: int) -> Path:
    return run / "checkpoints" / str(number)


def _read(run: Path, path: Path) -> Saved:
    sums = _manifest(path)
    _verify(path, sums)
    rest = json.loads((path / "rest.json").read_text())
    content = _load_arrays(path / "arrays", rest)
    taken = content.get("taken")
    if type(taken) is not int or not 0 <= taken < 2**63:  # True is an int, too
        raise Damaged("it does not say at which step it was made")
    config = (path / "run.yaml").read_text()
    progress = (path / "progress.csv").read_text()
    segments = _segments(sums)
    if not segments:
        return Saved(content, config, progress)
    files = [_segment(run, segment) for segment in segments]
    rows = np.concatenate([np.load(file, allow_pickle=False) for file in files])
    return Saved(content, config, progress, rows, min(segments)[0], segments)


def _segments(sums: Mapping[str, str]) -> dict[Segment, str]:
    """Those of a manifest, in order."""
    found = {}
    for name, total in sums.items():
        if Path(name).suffix == ".npy":
            first, end = Path(name).stem.split("-")
            found[int(first), int(end)] = total
    return dict(sorted(found.items()))


def _segment(run: Path, segment: Segment) -> Path:
    return run / "replay" / f"{segment[0]}-{segment[1]}.npy"


def _manifest(path: Path) -> dict[str, str]:
    try:
        sums = json.loads((path / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise Damaged(f"{MANIFEST} cannot be read ({error})") from None
    if not isinstance(sums, dict):
        raise Damaged(f"{MANIFEST} is not a table of sums")
    return sums


def _verify(path: Path, sums: Mapping[str, str]) -> None:
    needed = {"rest.json", "run.yaml", "progress.csv"}
    if absent := needed - sums.keys():
        raise Damaged(f"{MANIFEST} lacks {', '.join(sorted(absent))}")
    inside = {os.path.relpath(p, path) for p in path.rglob("*") if p.is_file()}
    listed = {name for name in sums if not name.startswith("..")} | {MANIFEST}
    if strange := inside ^ listed:
        raise Damaged(f"{', '.join(sorted(strange))} is missing or was added")
    replay = path.parent.parent.resolve() / "replay"
    for name, known in sums.items():
        file = (path / name).resolve()
        if name.startswith("..") and file.parent != replay:
            raise Damaged(f"{MANIFEST} names {name}, which is outside the run")
        if not file.is_file() or _sum(file) != known:
            raise Damaged(f"{file.name} is not as it was saved")


def _sum(file: Path, sync: bool = False) -> str:
    with file.open("rb") as stream:
        if sync:
            os.fsync(stream.fileno())
        return hashlib.file_digest(stream, "sha256").hexdigest()


def replace(file: Path, text: str) -> None:
    """Writes it so that at every moment the old or the new text stands there."""
    fresh = file.with_name(f".{file.name}.new")
    with fresh.open("w", newline="") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    fresh.rename(file)


# Between processes


def gathered(content: Any) -> list[Any]:
    """The contents of all ranks, by rank."""
    return [_unpacked(said) for said in mpi.allgather(_packed(content))]


def shared(found: tuple[Saved | None, list[str]]) -> tuple[Saved | None, list[str]]:
    """Rank 0's, on every rank; of a ring's rows each has its own."""
    if mpi.size() == 1:
        return found
    saved, complaints = found
    rows = saved.rows if saved else None
    others = saved.content.get("ranks") if saved else None
    if saved and (not isinstance(others, list) or len(others) + 1 != mpi.size()):
        raise UserError(
            f"there are {mpi.size()} processes, but the run was not of so many; jaxrl "
            "resume without mpirun starts as many as it needs"
        )
    shape = None if rows is None else [len(rows), *rows.shape[2:]]
    plain = saved._replace(rows=None, segments={}) if saved else None
    said = _packed([list(plain) if plain else None, complaints, shape])
    plain, complaints, shape = _unpacked(mpi.bcast_bytes(said))
    if plain is None:
        return None, complaints
    own = None if shape is None else mpi.scatter(rows, tuple(shape), np.float32)
    segments = saved.segments if saved else {}
    return Saved(*plain)._replace(rows=own, segments=segments), complaints


def _packed(content: Any) -> bytes:
    """As bytes: the arrays after all else."""
    arrays: list[np.ndarray] = []
    rest = _without_arrays(content, arrays)
    places, vectors = _joined(arrays)
    sizes = {name: vector.nbytes for name, vector in vectors.items()}
    head = json.dumps({"content": rest, "places": places, "sizes": sizes}).encode()
    parts = [len(head).to_bytes(8), head, *(v.tobytes() for v in vectors.values())]
    return b"".join(parts)


def _unpacked(said: bytes) -> Any:
    end = 8 + int.from_bytes(said[:8])
    head = json.loads(said[8:end])
    vectors = {}
    for name, size in head["sizes"].items():
        vectors[name] = np.frombuffer(said[end : end + size], name)
        end += size
    return _parted(head, vectors)


# Trees of arrays


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """Copies of the leaves by their names; random keys as their numbers."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.array(_plain(x)) for path, x in flat}


def unflatten(like: Any, leaves: Mapping[str, np.ndarray]) -> Any:
    """A tree such as `like` with these leaves."""
    flat, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [jax.tree_util.keystr(path) for path, _ in flat]
    if set(names) != set(leaves):
        strange = ", ".join(sorted(set(names) ^ set(leaves)))
        raise Damaged(f"the state has other parts than this run's: {strange}")
    filled = [
        _like(leaf, leaves[name]) for name, (_, leaf) in zip(names, flat, strict=True)
    ]
    return jax.tree.unflatten(structure, filled)


def _is_key(leaf: Any) -> bool:
    return jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _like(leaf: Any, value: np.ndarray) -> jax.Array:
    like = jax.eval_shape(_plain, leaf)
    if (value.shape, value.dtype) != (like.shape, like.dtype):
        raise Damaged("the state has other shapes than this run's")
    array = jax.numpy.array(value)
    return jax.random.wrap_key_data(array) if _is_key(leaf) else array


def _save_arrays(path: Path, content: Any) -> dict[str, Any]:
    """Saves the arrays in `content`, one vector a dtype; returns all else.

    A vector, because orbax takes its time for every array it is given.
    """
    import orbax.checkpoint as ocp  # slow, and not needed before the first save

    arrays: list[np.ndarray] = []
    rest = _without_arrays(content, arrays)
    places, vectors = _joined(arrays)
    if vectors:
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            checkpointer.save(path.absolute(), vectors)
    return {"places": places, "content": rest}


def _joined(arrays: Iterable[np.ndarray]) -> tuple[list, dict[str, np.ndarray]]:
    vectors: dict[str, list[np.ndarray]] = {}
    places = []
    for array in arrays:
        parts = vectors.setdefault(array.dtype.name, [])
        places.append([array.dtype.name, sum(map(len, parts)), array.shape])
        parts.append(array.ravel())
    filled = {name: np.concatenate(parts) for name, parts in vectors.items()}
    return places, {name: vector for name, vector in filled.items() if len(vector)}


def _load_arrays(path: Path, rest: Mapping[str, Any]) -> dict[str, Any]:
    import orbax.checkpoint as ocp

    vectors: dict[str, Any] = {}
    if path.exists():
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            vectors = checkpointer.restore(path.absolute())
    return _parted(rest, vectors)


def _parted(rest: Mapping[str, Any], vectors: Mapping[str, Any]) -> Any:
    arrays = []
    for name, start, shape in rest["places"]:
        size = int(np.prod(shape))
        vector = np.asarray(vectors.get(name, np.zeros(0, name)))
        arrays.append(vector[start : start + size].reshape(shape))
    return _with_arrays(rest["content"], arrays)


def _without_arrays(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, Mapping):
        return {key: _without_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_arrays(item, arrays) for item in value]
    return value


def _with_arrays(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"array"}:
            return arrays[value["array"]]
        return {key: _with_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_arrays(item, arrays) for item in value]
    return value
