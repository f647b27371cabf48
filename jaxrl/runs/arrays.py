"""Trees of arrays: by the names of their leaves, as bytes, and on the disk.

A tree is split into its arrays, joined to one vector per dtype, and the rest, which is
JSON and says where each array is in the vectors.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrl import files

MAX_BYTES = 8 * files.MODEL  # of a state that is read: parameters and their statistics
SHOWN = 5  # names of differing leaves in a message


class Mismatch(Exception):
    """Leaves that do not fit the tree they are to fill."""


# States of algorithms


def names(tree: Any) -> list[str]:
    """Of the leaves, in order."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [jax.tree_util.keystr(path) for path, _ in flat]


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """Copies of the leaves by their names; random keys as their numbers."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.array(key_data(x)) for path, x in flat}


def unflatten(like: Any, leaves: Mapping[str, np.ndarray]) -> Any:
    """A tree such as `like` with these leaves."""
    flat, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [jax.tree_util.keystr(path) for path, _ in flat]
    if set(names) != set(leaves):
        differing = sorted(set(names) ^ set(leaves))
        more = len(differing) - SHOWN
        listed = ", ".join(differing[:SHOWN]) + (f" and {more} more" * (more > 0))
        raise Mismatch(f"the state has other parts than this run's: {listed}")
    filled = [
        _like(leaf, leaves[name]) for name, (_, leaf) in zip(names, flat, strict=True)
    ]
    return jax.tree.unflatten(structure, filled)


def _is_key(leaf: Any) -> bool:
    return jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def key_data(leaf: Any) -> Any:
    """A random key as its numbers; anything else as it is."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _like(leaf: Any, value: np.ndarray) -> jax.Array:
    like = jax.eval_shape(key_data, leaf)
    if (value.shape, value.dtype) != (like.shape, like.dtype):
        raise Mismatch("the state has other shapes than this run's")
    array = jax.numpy.array(value)
    return jax.random.wrap_key_data(array) if _is_key(leaf) else array


# Dicts and lists with arrays in them


def to_bytes(content: Any) -> bytes:
    """JSON, then the vectors."""
    rest, vectors = _split(content)
    sizes = {name: vector.nbytes for name, vector in vectors.items()}
    head = json.dumps(rest | {"sizes": sizes}).encode()
    parts = [len(head).to_bytes(8), head, *(v.tobytes() for v in vectors.values())]
    return b"".join(parts)


def from_bytes(data: bytes) -> Any:
    """What `to_bytes` wrote."""
    end = 8 + int.from_bytes(data[:8])
    rest = json.loads(data[8:end])
    vectors = {}
    for name, size in rest["sizes"].items():
        vectors[name] = np.frombuffer(data[end : end + size], name)
        end += size
    return _join(rest, vectors)


def save(path: Path, content: Any) -> dict[str, Any]:
    """Saves the arrays in `content` by orbax; returns the rest for `load`.

    One vector per dtype, because orbax takes some time for every array.
    """
    import orbax.checkpoint as ocp  # slow, and not needed before the first save

    rest, vectors = _split(content)
    if vectors:
        # As `load` expects it, also where orbax's defaults change.
        handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=False)
        with ocp.Checkpointer(handler) as checkpointer:
            checkpointer.save(path.absolute(), vectors)
    return rest


def load(path: Path, rest: Mapping[str, Any]) -> Any:
    """What `save` was given.

    Read by tensorstore, the library below orbax: where a file is damaged, threads of
    orbax's restore print tracebacks that nobody can catch.
    """
    names = {name for name, _, shape in rest["places"] if math.prod(shape)}
    try:
        vectors = _read_vectors(path.absolute(), names)
    except ValueError as error:  # tensorstore's, with its whole specification
        reason = str(error).partition(" [")[0]
        raise Mismatch(f"its arrays cannot be read: {reason}") from None
    return _join(rest, vectors)


def _read_vectors(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    import tensorstore

    base = {"driver": "file", "path": f"{path.resolve()}/"}  # it refuses a `..`
    opened = {}
    for name in sorted(names):
        spec = {
            "driver": "zarr",
            "kvstore": {"driver": "ocdbt", "base": base, "path": f"{name}/"},
            "fill_missing_data_reads": False,
        }
        opened[name] = tensorstore.open(spec, open=True, read=True).result()
    _check_sizes(opened.values())
    return {name: vector.read().result() for name, vector in opened.items()}


def _check_sizes(vectors: Iterable[Any]) -> None:
    """Before they are read: compressed, a small file can stand for any size.

    A part of a vector that is read at once can be larger than the vector.
    """
    size = 0
    for vector in vectors:
        parts = vector.chunk_layout.read_chunk.shape
        numbers = max(math.prod(vector.shape), math.prod(parts))
        size += vector.dtype.numpy_dtype.itemsize * numbers
    if size > MAX_BYTES:
        raise Mismatch(f"its arrays have more than {MAX_BYTES:,} bytes")


def _split(content: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    arrays: list[np.ndarray] = []
    rest = _without_arrays(content, arrays)
    places, vectors = _concatenate(arrays)
    return {"places": places, "content": rest}, vectors


def _concatenate(arrays: Iterable[np.ndarray]) -> tuple[list, dict[str, np.ndarray]]:
    parts: dict[str, list[np.ndarray]] = {}
    places = []
    for array in arrays:
        before = parts.setdefault(array.dtype.name, [])
        places.append([array.dtype.name, sum(map(len, before)), array.shape])
        before.append(array.ravel())
    vectors = {name: np.concatenate(some) for name, some in parts.items()}
    return places, {name: vector for name, vector in vectors.items() if len(vector)}


def _join(rest: Mapping[str, Any], vectors: Mapping[str, Any]) -> Any:
    arrays = []
    for name, start, shape in rest["places"]:
        size = int(np.prod(shape))
        vector = np.asarray(vectors.get(name, np.zeros(0, name)))
        arrays.append(vector[start : start + size].reshape(shape))
    return _with_arrays(rest["content"], arrays)


def _without_arrays(value: Any, arrays: list[np.ndarray]) -> Any:
    """`value` with its arrays replaced by their numbers in `arrays`."""
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
