"""A user's model: a tree of arrays in one file, as arrays and JSON, never a pickle.

A tree is made of dicts, lists, tuples, named tuples, dataclasses and JAX's other nodes.
It is read without JAX, as dicts, lists and tuples of NumPy arrays; named tuples and
dataclasses come back as dicts of their fields, or as themselves by `fill`.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl import files
from jaxrl.errors import UserError
from jaxrl.policy import FILE_ERRORS

FILE = "tree.npz"
FORMAT = 1


# Saving


def save(path: Path, tree: Any) -> None:
    """Writes the file that `load` reads."""
    arrays: list[np.ndarray] = []
    about = {"format": FORMAT, "tree": _encode(tree, arrays, "model")}
    about["arrays"] = [[x.dtype.name, x.shape] for x in arrays]
    stored: dict[str, Any] = {str(i): _storable(x) for i, x in enumerate(arrays)}
    with path.open("wb") as file:
        np.savez(file, about=np.array(json.dumps(about)), **stored)


def _encode(value: Any, arrays: list[np.ndarray], name: str) -> Any:
    """What is not an array, with the numbers of the arrays in `arrays`."""
    if value is None or type(value) in (bool, int, float, str):
        return {"value": value}
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        arrays.append(_array(value, name))
        return {"array": len(arrays) - 1}
    kind, children = _children(value, name)
    inner = [(k, _encode(x, arrays, f"{name}[{k!r}]")) for k, x in children]
    return {kind: inner if kind == "dict" else [node for _, node in inner]}


def _children(value: Any, name: str) -> tuple[str, list[tuple[Any, Any]]]:
    """The kind of a node, and its parts by name."""
    if isinstance(value, Mapping):
        if wrong := [key for key in value if type(key) not in (str, int)]:
            raise UserError(f"{name} has the key {wrong[0]!r}; keys are texts or ints")
        return "dict", list(value.items())
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return "dict", list(value._asdict().items())
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return kind, list(enumerate(value))
    if (known := _jax_children(value)) is not None:
        named = any(isinstance(key, str) for key, _ in known)
        return "dict" if named else "list", known
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return "dict", [(key, getattr(value, key)) for key in names]
    raise UserError(
        f"{name} is {value!r:.80}; a model is made of arrays and numbers in dicts, "
        "lists, tuples and dataclasses"
    )


def _jax_children(value: Any) -> list[tuple[Any, Any]] | None:
    """The parts of a node that JAX knows; None if it is none to JAX."""
    import jax

    flat, _ = jax.tree_util.tree_flatten_with_path(
        value, is_leaf=lambda x: x is not value
    )
    if any(not path for path, _ in flat):
        return None
    return [(key_name(path[0]), part) for path, part in flat]


def key_name(key: Any) -> Any:
    """The name or the number in an entry of one of JAX's paths."""
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return str(key)


def _array(value: Any, name: str) -> np.ndarray:
    if str(value.dtype).startswith("key<"):
        import jax

        value = jax.random.key_data(value)
    try:
        array = np.asarray(value)
    except Exception as error:  # such as a tensor that needs a gradient
        reason = " ".join(str(error).split())
        raise UserError(f"{name} cannot be saved: {reason}") from None
    if array.dtype.kind in "OMm" or array.dtype.names:
        raise UserError(f"{name} is an array of {array.dtype}, but must be of numbers")
    return array


def _storable(array: np.ndarray) -> np.ndarray:
    """NumPy writes JAX's own types, such as bfloat16, only as their bytes."""
    if array.dtype.kind != "V":
        return array
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


# Loading


def model_file(run: Path, name: str) -> Path:
    """Where the model of a user's own loop is."""
    found = {file.parent.name: file for file in run.glob(f"models/*/{FILE}")}
    if isinstance(name, str) and name in found:
        return found[name]
    has = f"it has {', '.join(sorted(found))}" if found else "it has none"
    raise UserError(f"{run} has no model {name!r}; {has}")


def load(path: Path, inside: Path) -> Any:
    """The tree in a file of `save`; it runs no code and follows no link out."""
    try:
        with (
            files.open_regular(path, files.MEMORY, inside) as file,
            np.load(file, allow_pickle=False) as archive,
        ):
            if sum(part.file_size for part in archive.zip.infolist()) > files.MEMORY:
                raise ValueError
            about = json.loads(str(archive["about"]))
            if about["format"] > FORMAT:
                raise UserError(f"{path} was written by a newer jaxrl; update jaxrl")
            arrays = [
                _restored(archive[str(i)], *kind)
                for i, kind in enumerate(about["arrays"])
            ]
            return _decode(about["tree"], arrays)
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"cannot read {path}: {files.reason(error)}") from None
    except (*FILE_ERRORS, RecursionError):  # their messages do not help a user
        raise UserError(f"{path} is damaged or not a model of jaxrl.Logger") from None


def _restored(array: np.ndarray, dtype: str, shape: list[int]) -> np.ndarray:
    if array.dtype.name == dtype:
        return array
    import ml_dtypes  # noqa: F401  registers bfloat16 and the like

    return array.view(np.dtype(dtype)).reshape(shape)


def _decode(node: Any, arrays: list[np.ndarray]) -> Any:
    ((kind, content),) = node.items()
    if kind == "value":
        return content
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {key: _decode(inner, arrays) for key, inner in content}
    items = (_decode(inner, arrays) for inner in content)
    return {"list": list, "tuple": tuple}[kind](items)


# Into the shape of another tree


def fill(like: Any, tree: Any) -> Any:
    """A tree such as `like`, with the arrays of a loaded one."""
    import jax

    flat, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [tuple(map(key_name, path)) for path, _ in flat]
    loaded = jax.tree_util.tree_flatten_with_path(tree)[0]
    saved = {tuple(map(key_name, path)): leaf for path, leaf in loaded}
    if differing := set(names) ^ set(saved):
        raise UserError(f"the model and `like` differ in {_listed(differing)}")
    leaves = [
        _like(name, x, saved[name]) for name, (_, x) in zip(names, flat, strict=True)
    ]
    return jax.tree.unflatten(structure, leaves)


def _listed(names: Iterable[tuple]) -> str:
    some = ["".join(f"[{part!r}]" for part in name) for name in names]
    more = f" and {len(some) - 3} more" if len(some) > 3 else ""
    return ", ".join(sorted(some, key=str)[:3]) + more


def _like(name: tuple, like: Any, value: Any) -> Any:
    """A leaf of a model as one of JAX where `like` is, or else of NumPy."""
    import jax

    if not hasattr(like, "dtype"):
        return value
    shape, dtype = like.shape, like.dtype
    is_key = jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
    if is_key:
        data = jax.eval_shape(jax.random.key_data, like)
        shape, dtype = data.shape, data.dtype
    found = np.shape(value), np.asarray(value).dtype
    if found != (tuple(shape), dtype):
        raise UserError(
            f"the model's {_listed([name])} has shape {found[0]} and type {found[1]}, "
            f"but `like` has {tuple(shape)} and {dtype}"
        )
    if is_key:
        return jax.random.wrap_key_data(value, impl=jax.random.key_impl(like))
    return jax.numpy.asarray(value) if isinstance(like, jax.Array) else value
