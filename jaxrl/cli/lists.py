"""Several values in one word, as in `--seed 0,1,2`: a grid's, or a mistake."""

import json
import shlex
import typing
from collections.abc import Mapping
from typing import Any

from jaxrl.errors import UserError
from jaxrl.experiments import values
from jaxrl.settings.values import shown

BRACKETS = {"[": 1, "(": 1, "{": 1, "]": -1, ")": -1, "}": -1}
NAMES = ("env", "algo", "preset")  # texts of which none has a comma


def listed(name: str, text: str) -> list[str]:
    """The values in a text: one, if its setting can hold a comma itself."""
    hint = values.hints().get(name)
    if name not in NAMES and (hint is None or hint in (str, dict)):
        return [text]
    parts = _split(text)
    widths = typing.get_origin(hint) is tuple  # 64,64 is one value, [64],[32] are two
    if (widths and not any(part[:1] in "[(" for part in parts)) or not all(parts):
        return [text]
    return parts


def _split(text: str) -> list[str]:
    """At commas that are not inside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += BRACKETS.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def several(name: str, value: Any) -> list[str]:
    """The values where one is expected; empty if it is one."""
    if isinstance(value, str):
        found = listed(name, value)
        return found if len(found) > 1 else []
    known = name in (*NAMES, *values.hints())  # others may be an own algorithm's
    if not isinstance(value, list) or not value or not known:
        return []
    if values.is_one_value(name, value):
        return []
    return [_word(item) for item in value]


def refuse_in_train(algo: Any, given: Mapping[str, Any]) -> None:
    """Answers a list with the grid that runs all its values."""
    named = {"algo": algo} | dict(given)
    found = {name: every for name, x in named.items() if (every := several(name, x))}
    if not found:
        return
    words = ["jaxrl", "grid", *(found.get("algo") or [algo])]
    for name, value in given.items():
        flag = "--name" if name == "exp_name" else f"--{name}"
        words += [flag, *(found.get(name) or [_word(value)])]
    names = " and ".join(found)
    takes = "takes" if len(found) == 1 else "take"
    raise UserError(
        f"{names} {takes} one value in jaxrl train; a grid runs every one of them:\n  "
        f"{shlex.join(words)}"
    )


def refuse_in_rerun(directory: str, given: Mapping[str, Any]) -> None:
    """Answers a list with one command for each of its values."""
    for name, value in given.items():
        if every := several(name, value):
            lines = [["jaxrl", "rerun", directory, f"--{name}", one] for one in every]
            commands = "\n  ".join(map(shlex.join, lines))
            raise UserError(f"{name} takes one value in jaxrl rerun:\n  {commands}")


def _word(value: Any) -> str:
    """A value as a word of a command."""
    return json.dumps(value) if isinstance(value, dict) else shown(value) or str(value)
