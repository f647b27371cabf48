"""The one parser of all commands, and the kinds of values."""

import argparse
import itertools
import re
import shutil
from collections.abc import Iterable, Sequence
from typing import NoReturn

from jaxrl.errors import UserError, nearest, suggestion
from jaxrl.runs.spec import MODELS
from jaxrl.settings.values import KINDS

ON = "true"  # what a switch without a value stands for
WIDEST = 100  # columns of a help text
RENAMED = {"checkpoint": "model", "n_eval_episodes": "num_test_episodes"}
Wrong = argparse.ArgumentTypeError


class Parser(argparse.ArgumentParser):
    """Explains a mistake in a sentence, with the nearest flag; takes - and _ alike."""

    def __init__(self, usage: str, description: str = "") -> None:
        super().__init__(
            usage=usage,
            description=description,
            allow_abbrev=False,
            formatter_class=_formatter,
        )

    def add_choice(
        self, name: str, known: Iterable[str], text: str, default: str | None = None
    ) -> None:
        """An argument that is one of the known words."""
        words = tuple(known)

        def kind(word: str) -> str:
            if word in words:
                return word
            one = f"one of {', '.join(words)}{suggestion(word, words)}"
            raise Wrong(f"is {word!r}, but must be {one}")

        shown = "|".join(words)
        self.add_argument(name, type=kind, metavar=shown, default=default, help=text)

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The options in the words of a command."""
        given, unknown = self.parse_some(words)
        for name in unknown:
            self._refuse(name)
        return given

    def _refuse(self, name: str) -> NoReturn:
        hint = suggestion(f"--{name}", self._option_string_actions)
        hint = hint or "; --help lists all options"
        new = f"; it is now --{RENAMED[name]}" if name in RENAMED else ""
        raise UserError(f"'--{name}' is not an option{new or hint}")

    def refuse_misspelt(self, unknown: Iterable[str], options: Iterable[str]) -> None:
        """Refuses misspelt options; others refuse misspelt settings."""
        for name in unknown:
            meant = nearest(f"--{name}", self._option_string_actions)
            if meant and meant[0] in [f"--{option}" for option in options]:
                self._refuse(name)

    def parse_some(
        self, words: Sequence[str]
    ) -> tuple[argparse.Namespace, dict[str, list[str]]]:
        """The options, and unknown flags with the words that follow them."""
        known, unknown = self._split([_underscored(word) for word in words])
        return self.parse_args(known), unknown

    def _split(self, words: list[str]) -> tuple[list[str], dict[str, list[str]]]:
        """What argparse can read, and what it does not know."""
        options = self._option_string_actions
        known, unknown = [], {}
        while words:
            word = words.pop(0)
            name, equals, value = word.partition("=")
            switch = options.get(name.replace("--no_", "--", 1))
            if name not in options and switch and switch.metavar == KINDS[bool]:
                word, name = f"{switch.option_strings[0]}=false", ""  # --no_wandb
            if name[:2] == "--" and name not in options:
                unknown[name[2:]] = [value] if equals else _values(words)
                continue
            takes_one = name in options and options[name].nargs is None and not equals
            if takes_one and words and words[0][:1] == "-" and words[0] not in options:
                # A value may begin with a dash, as -inf or -1,2; a flag has two.
                word += f"={words.pop(0)}" if words[0][:2] != "--" else ""
            known.append(word)
        return known, unknown

    def error(self, message: str) -> NoReturn:
        """Raises with what argparse found, in the words of the other messages."""
        message = re.sub(r"(?<=^argument )\S+(?=: )", _long_name, message)
        if found := re.fullmatch(r"argument (\S+): expected .*arguments?", message):
            name = found[1]
            kind = self._option_string_actions[name].metavar
            raise UserError(f"{name} needs a value, as in {name} {kind}")
        if found := re.match(r"unrecognized arguments: (.*)", message):
            word = found[1].split(" ")[0]
            raise UserError(
                f"unexpected argument {word!r}; options are written --name value"
            )
        absent = "the following arguments are required: "
        if absent in message:
            what = message.removeprefix(absent)
            raise UserError(f"missing {what}; usage: {self.usage}")
        message = message.replace("not allowed with argument", "does not go with")
        raise UserError(re.sub(r"^argument (\S+): ", r"\1 ", message))


def _formatter(prog: str) -> argparse.HelpFormatter:
    width = min(shutil.get_terminal_size().columns, WIDEST) - 2
    return argparse.HelpFormatter(prog, max_help_position=28, width=width)


def _long_name(names: re.Match[str]) -> str:
    """Of a flag with several, as in -o/--output."""
    every = names[0].split("/")
    return next((name for name in every if name.startswith("--")), every[0])


def _underscored(word: str) -> str:
    if not word.startswith("--"):
        return word
    name, equals, value = word[2:].partition("=")
    return f"--{name.replace('-', '_')}{equals}{value}"


def _values(words: list[str]) -> list[str]:
    """Removes and returns the words up to the next flag."""
    found = []
    while words and words[0][:2] != "--":
        found.append(words.pop(0))
    return found


def peek(words: Sequence[str], option: str) -> str | None:
    """The value of an option, read before there is a parser; None if it is absent."""
    for word, following in itertools.pairwise([*words, ""]):
        name, equals, value = _underscored(word).partition("=")
        if name == option:
            return value if equals else following
    return None


def first_word(words: Sequence[str]) -> str:
    """The word before all flags; "" where there is none."""
    return words[0] if words and not words[0].startswith("-") else ""


# Kinds of values


def model(text: str) -> str | int:
    """A model by its name or by the step it was saved at."""
    if not text.isdecimal() and text not in MODELS:
        raise Wrong(f"is {text!r}, but must be last, best or a step")
    return int(text) if text.isdecimal() else text


def count(text: str) -> int:
    """A whole number >= 1."""
    return _whole(text, 1)


def seed(text: str) -> int:
    """A whole number >= 0."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    rule = f"must be a whole number >= {least}"
    if not text.isdecimal() or not least <= float(text) <= 1e15:
        raise Wrong(f"is {text[:40]!r}, but {rule}")
    return int(text)


def duration(text: str) -> float:
    """Seconds, from a number and its unit."""
    units = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
    if not (match := re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)):
        raise Wrong(f"is {text!r}, but must be a time such as 90s, 30m or 2h")
    return float(match[1]) * units[match[2]]
