"""A user's mistakes: explained in a sentence, with the nearest right word.

And a user's request to stop.
"""

import contextlib
import difflib
import re
import signal
from collections.abc import Iterable, Iterator
from typing import Any


class Stopped(KeyboardInterrupt):
    """A signal other than Ctrl-C asked the process to end."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.signal = number


class UserError(ValueError):
    """A user's mistake, to be shown without a traceback."""


# A command stays as it is; a flag may have a value: a placeholder, a number or a word.
FLAG = re.compile(
    r"(?P<command>\bjaxrl [a-z]+ [^;,]*)"
    r"|--(?P<name>[a-z_]+)(?![\w=-])(?: (?:(?P<value>[A-Z]+|\d+)|(?P<word>mlp|env))\b)?"
)
SWITCHES = (
    *("overwrite", "wandb", "wandb_models", "init_optimizer", "changed_code"),
    *("count", "suite", "show"),
)


@contextlib.contextmanager
def about_arguments() -> Iterator[None]:
    """Mistakes name the arguments of a function, not the flags of a command."""
    try:
        yield
    except UserError as error:
        raise UserError(as_arguments(str(error))) from error.__cause__


def as_arguments(text: str) -> str:
    """The text with names of arguments instead of flags."""
    return FLAG.sub(_argument, text)


def _argument(found: re.Match[str]) -> str:
    if found["command"]:
        return found[0]
    name, value = found["name"], found["value"] or ""
    if name in SWITCHES:
        value = "True"
    elif found["word"]:
        value = repr(found["word"])
    return f"{name}={value}"


# As near as a word of three letters is with one of them wrong; what is farther off,
# such as 'activation' from 'clip_ratio', misleads.
NEAR = 0.66


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names that may be meant, two at most."""
    words = {_plain(word): word for word in known}
    asked = _plain(name)
    near = difflib.get_close_matches(asked, words, 1, NEAR)
    # `lr` is not near 'pi_lr' or 'vf_lr', but the end of both, and part of 'lr_decay'.
    having = [word for word in words if asked and f"_{asked}_" in f"_{word}_"]
    having.sort(key=lambda word: not word.endswith(asked))
    return [words[word] for word in (near or having[:2])]


def suggestion(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' if there is something near."""
    meant = " or ".join(map(repr, nearest(name, known)))
    return f"; did you mean {meant}?" if meant else ""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """That there is no such algorithm, preset or the like, and what there is."""
    words = list(known)
    hint = suggestion(name.lower(), words) or f"; choose {', '.join(words)}"
    return f"there is no {kind} {name!r}{hint}"


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """How the settings of then and now differ, a phrase each."""

    def shown(given: dict[str, Any], key: str) -> str:
        return repr(given[key]) if key in given else "not set"

    return [
        f"{key} was {shown(before, key)} and is {shown(now, key)}"
        for key in before | now
        if before.get(key) != now.get(key)
    ]


def _plain(word: str) -> str:
    """Without dashes, which all flags have in common."""
    return word.lstrip("-").replace("-", "_")
