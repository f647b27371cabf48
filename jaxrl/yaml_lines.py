"""YAML as plain data, with the line of each value. Nothing in a file is ever run.

    lr: [1e-3,            # line 1
         1e-4]            # line 2

is the data {"lr": ["1e-3", "1e-4"]} and the lines {("lr",): 1, ("lr", 0): 1,
("lr", 1): 2}. Keys that are set twice are mistakes with their line.
"""

import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl import files
from jaxrl.errors import UserError

if typing.TYPE_CHECKING:
    import yaml

Place = tuple[Any, ...]
"""Keys and indices that lead to a value."""
MOST = 100_000  # values in a file; a few lines of aliases can stand for billions
DIGITS = 1000  # of a number
# What PyYAML means.
SYNTAX = {
    "'\\t'": "it is indented by a tab; use spaces",
    "expected <block end>": "it is not indented as the lines before it",
    "mapping values are not allowed": "it is not indented as the lines before it, or "
    "has a second ': '",
    "found another document": "a second document begins, but a file holds one",
    "unhashable key": "a setting has a word for its name, not a list",
}


class Document(NamedTuple):
    """The settings in a file, the line of each place, and mistakes by line."""

    data: dict[Any, Any]
    lines: dict[Place, int]
    mistakes: list[tuple[int, str]]


def parsed(text: str) -> Any:
    """The data in a YAML text; a ValueError, in a line, where it is not YAML."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:  # an empty text
            return None
        _check_size(root)
        return yaml.SafeLoader("").construct_document(root)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except Exception as error:  # of any kind where a value does not fit its tag
        raise ValueError(" ".join(str(error).split())) from None


def read(path: str, as_text: Sequence[str] = ()) -> Document:
    """The settings in a YAML file; scalars in the sections `as_text` stay as written.

    YAML would read the time 4:00:00 as a number.
    """
    import yaml

    found = Document({}, {}, [])
    try:
        root = yaml.compose(
            files.read_text(Path(path), files.SETTINGS), Loader=yaml.SafeLoader
        )
        if not isinstance(root, yaml.MappingNode):
            example = "one a line, as in 'gamma: 0.98'"
            raise UserError(f"{path} must hold settings, {example}")
        _check_size(root)
        _locate(root, (), found)
        found.data.update(yaml.SafeLoader("").construct_document(root))
        for key, node in root.value:
            if key.value in as_text:
                text = yaml.BaseLoader("").construct_document(node)
                found.data[key.value] = text
    except OSError as error:
        raise UserError(f"cannot read {path}: {files.reason(error)}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{path} is not YAML: {_syntax(error)}") from None
    return found


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
    problem = problem.replace("could not determine a constructor for", "there is no")
    return f"line {mark.line + 1}: {problem}"


def _check_size(root: "yaml.Node") -> None:
    """Raises where a few lines of aliases stand for too much, or for themselves."""
    import yaml

    if _size(root, {}) > MOST:
        raise yaml.YAMLError(f"it holds more than {MOST} values, by its aliases")


def _size(node: "yaml.Node", known: dict[int, int]) -> int:
    """Values that a node stands for, those behind aliases counted each time."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        if node.tag.endswith(":int") and len(node.value) > DIGITS:  # cannot be shown
            raise yaml.YAMLError(f"a number has more than {DIGITS} digits")
        return 1
    if known.get(id(node)) == 0:
        problem = "a value contains itself"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = 0  # until it is counted
    inner = [
        x for item in node.value for x in (item if type(item) is tuple else [item])
    ]
    known[id(node)] = 1 + sum(_size(child, known) for child in inner)
    return known[id(node)]


def _locate(node: "yaml.Node", place: Place, found: Document) -> None:
    """Notes the lines of a node and of all that is in it; drops keys set twice."""
    import yaml

    found.lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode):
        _check(node)
    elif isinstance(node, yaml.SequenceNode):
        for i, child in enumerate(node.value):
            _locate(child, (*place, i), found)
    else:
        for key, child in list(node.value):
            at, line = (*place, str(key.value)), key.start_mark.line + 1
            if at in found.lines:
                sentence = f"{key.value} is already set on line {found.lines[at]}"
                found.mistakes.append((line, sentence))
                node.value.remove((key, child))
            else:
                found.lines[at] = line
                _locate(child, at, found)


def _check(node: "yaml.ScalarNode") -> None:
    """Raises with its line where a value does not fit its tag."""
    import yaml

    try:
        yaml.SafeLoader("").construct_object(node)
    except yaml.YAMLError:
        raise
    except Exception:  # of any kind
        problem = f"{node.value!r} is no {node.tag.rpartition(':')[2]}"
        mark = node.start_mark
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark) from None
