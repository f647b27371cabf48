"""Values of settings in grids and searches: converted, listed and checked.

The same checks serve a file, the command line and Python.
"""

import contextlib
import difflib
import functools
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxrl import algos as algorithms
from jaxrl.algos import NAMES, is_file, presets
from jaxrl.errors import UserError, unknown
from jaxrl.runs import spec
from jaxrl.settings import values
from jaxrl.yaml_lines import parsed

CHOICES = {"algo": NAMES, "preset": presets.CHOICES}
# Each run's own, which the grid decides.
ELSEWHERE = {
    "exp_name": "the grid's name names its runs",
    "out": "it is one for the whole grid",
    "overwrite": "it is not a setting: use the flag --overwrite, or Grid.run's option",
}


_files: dict[str, None] = {}  # users' algorithms that were named so far


def notice(names: Any) -> None:
    """Takes the settings of users' algorithms for known from here on."""
    for name in names if isinstance(names, list | tuple) else [names]:
        if is_file(name):
            _files[algorithms.named(name)] = None


def hints() -> dict[str, Any]:
    """The type of every setting; one name means the same in all algorithms."""
    found = _hints()
    for path in _files:
        with contextlib.suppress(ValueError):  # which is named where it is used
            found = {k: x.hint for k, x in spec.known_settings(path).items()} | found
    return found


@functools.cache
def _hints() -> dict[str, Any]:
    every = [spec.known_settings(algo) for algo in NAMES]
    return {name: x.hint for known in every for name, x in known.items()}


def listed(key: str, given: Any) -> list[Any]:
    """The values of a setting, converted; one that is itself a list stays one."""
    given = values.plain(given)
    several = isinstance(given, list) and not is_one_value(key, given)
    return [converted(key, value) for value in (given if several else [given])]


def each(given: Any) -> list[Any]:
    """The values of a setting that is not jaxrl's: a list has several, as they are."""
    given = values.plain(given)
    return given if isinstance(given, list) else [given]


def as_given(key: str, value: Any) -> Any:
    """The value of a setting that is not jaxrl's."""
    return values.plain(value)


def is_one_value(key: str, given: list) -> bool:
    """Whether a list is a single value, as the widths in `hidden: [64, 64]`."""
    hint = hints().get(key)
    if typing.get_origin(hint) is not tuple or not given:
        return False
    kinds = str if typing.get_args(hint)[0] is str else int | float
    return all(isinstance(each, kinds) for each in given)


def refuse_lists(algo: Any, env: Any, given: Mapping[str, Any]) -> None:
    """Answers a list where one run takes one value with the grid that runs them all."""
    every = {key: values.plain(x) for key, x in (("env", env), *given.items())}
    lists = [x for x in every if isinstance(every[x], list)]
    known = ("env", *hints())  # an algorithm of the user's own may take lists
    lists = [x for x in lists if x in known and every[x]]
    several = [x for x in lists if not is_one_value(x, every[x])]
    if not several or not isinstance(algo, str):
        return
    name = str(every.pop("exp_name", algo))
    added = [f".add({key!r}, {value!r})" for key, value in every.items()]
    takes = "takes" if len(several) == 1 else "take"
    raise UserError(
        f"{' and '.join(several)} {takes} one value in a run; a grid runs every one: "
        f"jaxrl.Grid({name!r}).add('algo', {algo!r}){''.join(added)}.run()"
    )


def converted(key: str, value: Any) -> Any:
    """By the type of the setting; text for a part of a mapping is read as YAML."""
    value = values.plain(value)
    if key == "algo":
        with contextlib.suppress(UserError):  # which the checks explain
            value = algorithms.named(value)
        notice(value)
        return value
    if ":" in key and isinstance(value, str):
        with contextlib.suppress(ValueError):
            return parsed(value)
        return value
    hint = hints().get(key)
    return value if hint is None else values.converted(value, hint)


def known_algorithms(names: Iterable[Any]) -> list[str]:
    """The algorithms that are named; of a misspelt one, the nearest."""
    near = [
        [name] if is_file(name) else difflib.get_close_matches(str(name), NAMES, 1)
        for name in names
    ]
    return [name for found in near for name in found]


def fault(key: str, value: Any, algos: Sequence[str]) -> str:
    """What is wrong with a setting or its value; empty if nothing is."""
    return key_fault(key, algos) or value_fault(key, value, algos)


def key_fault(
    key: str, algos: Sequence[str], kind: str = "grid", words: Sequence[str] = ()
) -> str:
    """That the algorithms have no such setting; empty if they do.

    `words` are what else a file of this kind can hold.
    """
    name, *parts = key.split(":")
    if key in (*CHOICES, "env"):
        return ""
    if key in ELSEWHERE:
        return f"{key} cannot be set in a grid; {ELSEWHERE[key]}"
    if parts and hints().get(name) is not dict:
        return f"{key!r} is a part of {name}, but only env_kwargs has parts"
    near = difflib.get_close_matches(name, words, 1, 0.75)
    if near and name not in hints():
        return f"a {kind} has no {name!r}; did you mean {near[0]!r}?"
    for algo in _having(name, algos):
        if name not in (known := spec.known_settings(algo)):
            return spec.fault(algorithms.label(algo), name, None, known)
    return ""


def value_fault(key: str, value: Any, algos: Sequence[str]) -> str:
    """What is wrong with the value of a known setting; empty if nothing is."""
    if key in CHOICES:
        what = "algorithm" if key == "algo" else key
        known = CHOICES[key]
        if key == "algo" and is_file(value):
            return _file_fault(value)
        return "" if value in known else unknown(what, str(value), known)
    if key == "env":
        return _env_fault(value)
    name, *parts = key.split(":")
    tried = value if not parts else {parts[0]: value}
    every = (
        spec.fault(algorithms.label(algo), name, tried, spec.known_settings(algo))
        for algo in _having(name, algos)
    )
    return next(filter(None, every), "")


def _having(name: str, algos: Sequence[str]) -> Sequence[str]:
    """The given algorithms; without any, one that has the setting."""
    having = [algo for algo in NAMES if name in spec.known_settings(algo)]
    usable = [algo for algo in algos if not is_file(algo) or not _file_fault(algo)]
    return usable or having[:1] or NAMES[:1]


def _file_fault(path: str) -> str:
    """What is wrong with a user's algorithm; empty if nothing is."""
    try:
        spec.known_settings(path)
    except ValueError as error:
        return str(error)
    return ""


def _env_fault(value: Any) -> str:
    from jaxrl import envs  # imports gymnasium

    if isinstance(value, str) and value:
        return envs.misspelt(value)
    what = "empty" if value in (None, "") else repr(value)
    return f"env is {what}, but must be a name, such as Hopper-v4"
