"""Values of settings: made plain Python, converted from text, checked against hints."""

import contextlib
import datetime
import os
import re
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from jaxrl import yaml_lines

T = TypeVar("T")
MOST_ITEMS = 100  # of a list; thousands of layers take minutes to compile
PLAIN = (type(None), bool, int, float, str, bytes, datetime.date)
WORDS = {"true": True, "yes": True, "on": True, "1": True}
WORDS |= {"false": False, "no": False, "off": False, "0": False}
KINDS = {int: "N", float: "X", bool: "true|false", str: "TEXT", dict: "YAML"}
NAMES: dict[Any, str] = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "a string",
    dict: "a mapping of numbers, texts and lists, as in '{key: value}'",
}


def plain(value: Any) -> Any:
    """NumPy's and JAX's numbers and arrays, paths and subclasses as plain Python.

    Every value from outside passes through here, because config.yaml holds only these.
    """
    try:
        return _plain(value)
    except RecursionError:  # a list that holds itself; no rule accepts it
        return value


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if not isinstance(value, type) and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, range | list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def converted(value: Any, hint: Any) -> Any:
    """`value` as the type of `hint`; unchanged where it cannot be read as that."""
    value = plain(value)
    if typing.get_origin(hint) is Annotated:
        hint, range_ = typing.get_args(hint)
        if range_.auto and value == "auto":
            return 0
    if typing.get_origin(hint) is tuple:
        return _converted_tuple(value, typing.get_args(hint)[0])
    if hint is dict and isinstance(value, str):
        with contextlib.suppress(ValueError):
            return plain(yaml_lines.parsed(value))
        return value
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        whole = hint is int and isinstance(value, float) and value.is_integer()
        return int(value) if whole else value
    return _from_text(value.strip(), hint)


def _converted_tuple(value: Any, inner: Any) -> Any:
    items = _items(value) if isinstance(value, str) else value
    if isinstance(items, int) and not isinstance(items, bool):
        items = [items]  # one layer
    if not isinstance(items, list | tuple):
        return value
    return tuple(converted(item, inner) for item in items if item != "")


def _items(text: str) -> list[str]:
    """Of a list, with or without its brackets."""
    text = text.strip()
    if text[:1] + text[-1:] in ("[]", "()"):
        text = text[1:-1]
    return text.split(",")


def _from_text(text: str, hint: Any) -> Any:
    if hint is bool:
        return WORDS.get(text.lower(), text)
    if hint not in (int, float):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    if hint is float:
        return number
    if not number.is_integer():
        return text
    # Exactly, where it is written so; 1e6 is a whole number too.
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else int(number)


def broken_rule(value: Any, hint: Any) -> str:
    """The rule of the annotation `hint` that a plain `value` breaks; empty if none."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        kind, range_ = arguments
        right = not broken_rule(value, kind) and range_.holds(value)
        return "" if right else described(hint)
    if origin is Literal:
        known = isinstance(value, str) and value in arguments
        return "" if known else described(hint)
    if origin is tuple:
        items = value if isinstance(value, tuple) else (None,)
        wrong = [item for item in items if broken_rule(item, arguments[0])]
        return described(hint) if wrong or len(items) > MOST_ITEMS else ""
    if hint is dict:
        right = isinstance(value, dict) and _holds_plain_values(value)
    else:
        kinds = (int, float) if hint is float else hint
        right = isinstance(value, kinds) and isinstance(value, bool) == (hint is bool)
    return "" if right else described(hint)


def _holds_plain_values(value: Any) -> bool:
    """Whether YAML can write it."""
    try:
        if isinstance(value, Mapping):
            return all(map(_holds_plain_values, [*value, *value.values()]))
        if isinstance(value, list | tuple):
            return all(map(_holds_plain_values, value))
    except RecursionError:
        return False
    return isinstance(value, PLAIN)


def described(hint: Any) -> str:
    """The values that the annotation `hint` allows."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return f"{NAMES[arguments[0]]} {arguments[1]}"
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if origin is tuple:
        example = "a,b" if arguments[0] is str else "64,64"
        rule = f"or up to {MOST_ITEMS} separated by commas, as in {example}"
        return f"{described(arguments[0])}, {rule}"
    return NAMES[hint]


def kind(hint: Any) -> str:
    """What a value of the hint looks like in a help text."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is Literal:
        return "|".join(typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return "TEXT,..." if typing.get_args(hint)[0] is str else "N,N,..."
    return KINDS[hint]


def shown(value: Any) -> str:
    """A value as on the command line."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value in (None, {}) else str(value)
