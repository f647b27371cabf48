"""What the commands share: options read alike and refused alike, outputs whole."""

import argparse
import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from jaxrl.errors import UserError, suggestion
from jaxrl.runs.reading import MODEL_NAMES

Wrong = argparse.ArgumentTypeError


class Parser(argparse.ArgumentParser):
    """Refuses in a sentence, with the nearest option; takes - and _ alike."""

    def __init__(self, usage: str, description: str) -> None:
        super().__init__(
            usage=f"jaxrl {usage}",
            description=description,
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.HelpFormatter(
                prog, max_help_position=30, width=88
            ),
        )

    def error(self, message: str) -> NoReturn:
        message = message.replace("the following arguments are required: ", "no ")
        message = message.replace("not allowed with argument", "does not go with")
        message = re.sub(r"^argument (\S+): ", lambda name: f"{name[1]} ", message)
        choice = r"invalid choice: (.*) \(choose from (.*)\)"
        raise UserError(re.sub(choice, r"is \1, but must be one of \2", message))

    def parse(self, words: list[str]) -> argparse.Namespace:
        given, strangers = self.parse_known_args([_underscored(word) for word in words])
        if strangers:
            options = [o for action in self._actions for o in action.option_strings]
            hint = suggestion(strangers[0], options) or "; --help lists all options"
            raise UserError(f"{strangers[0]!r} is not an option{hint}")
        return given


def _underscored(word: str) -> str:
    if not word.startswith("--"):
        return word
    name, equals, value = word[2:].partition("=")
    return f"--{name.replace('-', '_')}{equals}{value}"


def first_of(words: list[str]) -> tuple[str, list[str]]:
    """The word before all flags, "" where there is none, and the others."""
    if words and not words[0].startswith("-"):
        return words[0], words[1:]
    return "", list(words)


def add_agent(parser: Parser) -> None:
    """The options of the commands that show one trained policy."""
    parser.add_argument("dir", metavar="DIR", help="directory of a run")
    parser.add_argument(
        "--checkpoint",
        type=model,
        metavar="MODEL",
        default="last",
        help="which of its models: last, best (by its episodes) or a step [last]",
    )


def add_paths(parser: Parser) -> None:
    """The runs that a command is about."""
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="runs, directories of runs, or globs"
    )


def add_output(parser: Parser, default: str) -> None:
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        metavar="FILE",
        default=Path(default),
        help=f"where to write it [{default}]",
    )


def model(text: str) -> str | int:
    """By its name or the step it was saved at."""
    if not text.isdecimal() and text not in MODEL_NAMES:
        raise Wrong(f"is {text!r}, but must be last, best or a step")
    return int(text) if text.isdecimal() else text


def count(text: str) -> int:
    return _whole(text, 1)


def seed(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    rule = f"must be a whole number from {least} on"
    if not text.isdecimal() or not least <= float(text) <= 1e15:
        raise Wrong(f"is {text[:40]!r}, but {rule}")
    return int(text)


def duration(text: str) -> float:
    """Seconds, from a number and its unit."""
    units = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
    if not (match := re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)):
        raise Wrong(f"is {text!r}, but must be as 90s, 30m or 2h")
    return float(match[1]) * units[match[2]]


@contextlib.contextmanager
def writing(path: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """A name to write to, which becomes `path` when all went well."""
    if path.suffix not in suffixes:
        raise UserError(
            f"cannot write {path}; its name must end in {_either(suffixes)}"
        )
    if path.is_dir() or not path.parent.is_dir():
        what = (
            "it is a directory" if path.is_dir() else f"{path.parent} is no directory"
        )
        raise UserError(f"cannot write {path}: {what}")
    fresh = path.with_name(f".new-{os.getpid()}-{path.name}")
    try:
        fresh.touch()  # refuses before the work is done, not after
        yield fresh
        fresh.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def _either(words: tuple[str, ...]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
