"""A user's configuration as plain data, as Spinning Up's `convert_json` makes it."""

import argparse
import dataclasses
import datetime
import enum
import functools
import os
from collections.abc import Mapping, Set
from typing import Any

from jaxrl.errors import UserError

LARGEST = 100  # elements of an array that is written out
DEEPEST = 20  # levels of nesting


def plain_config(config: Any) -> dict[str, Any]:
    """The settings in a mapping, a dataclass or an `argparse.Namespace`."""
    if config is None:
        return {}
    found = as_plain(config)
    if not isinstance(found, dict):
        raise UserError(
            f"config is {config!r:.100}, but must be a dict of settings, a dataclass "
            "or an argparse.Namespace"
        )
    return found


def as_plain(value: Any, depth: int = 0) -> Any:
    """As YAML can write it: numbers, texts, lists and dicts; all else by its name."""
    if depth > DEEPEST:
        raise UserError(f"config is nested more than {DEEPEST} levels deep")
    inner = functools.partial(as_plain, depth=depth + 1)
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, str | os.PathLike):
        return _text(os.fspath(value))
    if (fields := _fields(value)) is not None:
        return {_text(_name(key)): inner(item) for key, item in fields.items()}
    if isinstance(value, list | tuple | range):
        return [inner(item) for item in value]
    if isinstance(value, Set):
        return sorted((inner(item) for item in value), key=str)
    if not isinstance(value, type) and hasattr(value, "tolist"):
        return _array(value)
    if isinstance(value, bool | int | float):  # of a subclass
        return next(
            kind(value) for kind in (bool, int, float) if isinstance(value, kind)
        )
    return _text(_name(value))


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """What has values by name; None of everything else."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, argparse.Namespace):
        return vars(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: getattr(value, name) for name in names}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    return None


def _array(value: Any) -> Any:
    """Its numbers, or of a large array only what it is."""
    if getattr(value, "size", 1) > LARGEST:
        return f"array of shape {tuple(value.shape)}, {value.dtype}"
    return as_plain(value.tolist(), DEEPEST - 10)


def _name(value: Any) -> str:
    """Of a function or a class; of an object, its class, as addresses say nothing."""
    if isinstance(value, functools.partial):
        return f"partial({_name(value.func)})"
    if isinstance(value, str | int | float | bytes | complex | datetime.date):
        return str(value)
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else type(value).__name__


def _text(text: str | bytes) -> str:
    """Without what cannot be written as UTF-8, such as a broken file name."""
    text = os.fsdecode(text)
    return text.encode(errors="replace").decode()
