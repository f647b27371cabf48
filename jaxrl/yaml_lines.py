"""YAML as plain data, with the line of each value. Nothing in a file is ever run.

    lr: [1e-3,            # line 1
         1e-4]            # line 2

is the data {"lr": ["1e-3", "1e-4"]} and the lines {("lr",): 1, ("lr", 0): 1,
("lr", 1): 2}. Duplicate keys and values that cannot be read are mistakes, each with
its line.
"""

import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl.errors import UserError

if typing.TYPE_CHECKING:
    import yaml

Place = tuple[str | int, ...]
"""Keys and indices that lead to a value."""
UNREADABLE = object()  # stands for a value that a mistake was already reported for
MOST = 100_000  # values in a file; a few lines of aliases can stand for billions
# What PyYAML means.
SYNTAX = {
    "'\\t'": "it is indented by a tab; use spaces",
    "expected <block end>": "it is not indented as the lines before it",
    "mapping values are not allowed": "it is not indented as the lines before it, or "
    "has a second ': '",
    "found another document": "a second document begins, but a file holds one",
}


class Document(NamedTuple):
    """The settings in a file, the line of each place, and mistakes by line."""

    data: dict[str, Any]
    lines: dict[Place, int]
    mistakes: list[tuple[int, str]]


def parsed(text: str) -> Any:
    """The data in a YAML text; a ValueError, in a line, where it is not YAML."""
    import yaml

    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except Exception as error:  # of any kind where a value does not fit its tag
        raise ValueError(" ".join(str(error).split())) from None


def read(path: str, as_text: Sequence[str] = ()) -> Document:
    """The settings in a YAML file; scalars in the sections `as_text` stay as written.

    YAML would read the time 4:00:00 as a number.
    """
    import yaml

    try:
        root = yaml.compose(Path(path).read_text(), Loader=yaml.SafeLoader)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{path} is not YAML: {_syntax(error)}") from None
    if not isinstance(root, yaml.MappingNode):
        raise UserError(f"{path} must hold settings, one a line, as in 'gamma: 0.98'")
    if _size(root, {}) > MOST:
        raise UserError(f"{path} holds more than {MOST} values, by its aliases")
    builder = _Builder(as_text)
    return Document(builder.value(root, ()), builder.lines, builder.mistakes)


def _syntax(error: Exception) -> str:
    """What is wrong with it, in a line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    mark = getattr(error, "problem_mark", None)
    if not mark:
        return " ".join(str(error).replace('in "<unicode string>", ', "").split())
    problem = str(getattr(error, "problem", error))
    for part, sentence in SYNTAX.items():
        problem = sentence if part in problem else problem
    problem = problem.replace("<stream end>", "the end of the file")
    return f"line {mark.line + 1}: {problem}"


def _size(node: "yaml.Node", known: dict[int, int]) -> int:
    """Values that a node stands for, those behind aliases counted each time."""
    if id(node) in known or not isinstance(node.value, list):
        return known.get(id(node), 1)
    known[id(node)] = 1  # where it holds itself
    inner = [
        x for item in node.value for x in (item if type(item) is tuple else [item])
    ]
    known[id(node)] = 1 + sum(_size(child, known) for child in inner)
    return known[id(node)]


class _Builder:
    """Turns YAML's nodes into data and notes their lines."""

    def __init__(self, as_text: Sequence[str]) -> None:
        import yaml

        self._yaml, self._loader = yaml, yaml.SafeLoader("")
        self._as_text = as_text
        self._open: list[yaml.Node] = []  # those that hold the present one
        self.lines: dict[Place, int] = {}
        self.mistakes: list[tuple[int, str]] = []

    def value(self, node: "yaml.Node", place: Place) -> Any:
        """The data that a node stands for."""
        line = node.start_mark.line + 1
        self.lines.setdefault(place, line)
        if any(node is other for other in self._open):
            return self._unreadable(line, "it is a value that contains itself")
        if isinstance(node, self._yaml.ScalarNode):
            return self._scalar(node, place)
        if node.tag.rpartition(":")[2] not in ("map", "seq"):
            return self._unreadable(line, f"there is no tag {node.tag!r}")
        self._open.append(node)
        try:
            if isinstance(node, self._yaml.MappingNode):
                return self._mapping(node, place)
            return [self.value(x, (*place, i)) for i, x in enumerate(node.value)]
        finally:
            self._open.pop()

    def _scalar(self, node: "yaml.Node", place: Place) -> Any:
        if place and place[0] in self._as_text:
            return node.value
        try:
            return self._loader.construct_object(node)
        except Exception as error:  # of any kind where a value does not fit its tag
            problem = " ".join((getattr(error, "problem", None) or str(error)).split())
            no_tag = "could not determine a constructor for the tag"
            problem = problem.replace(no_tag, "there is no tag")
            return self._unreadable(node.start_mark.line + 1, problem)

    def _mapping(self, node: "yaml.MappingNode", place: Place) -> dict[Any, Any]:
        merges = any(key.tag.endswith(":merge") for key, _ in node.value)
        if merges:  # `<<: *base`, whose values give way
            self._loader.flatten_mapping(node)
        found: dict[Any, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, self._yaml.ScalarNode):
                self._unreadable(line, "a setting has a word for its name, not a list")
                continue
            name = self._scalar(key, ()) if place else str(key.value)
            inner = (*place, name)
            if name in found and not merges:
                first = self.lines[inner]
                self._unreadable(line, f"{name} is already set on line {first}")
                continue
            self.lines[inner] = line
            found[name] = self.value(value, inner)
        return found

    def _unreadable(self, line: int, sentence: str) -> Any:
        self.mistakes.append((line, sentence))
        return UNREADABLE
