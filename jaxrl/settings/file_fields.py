"""The settings of a user's algorithm: from the text of its file, or by importing it.

Most files are written as jaxrl's own, and their text says all. What it does not, such
as a computed default, an inherited class or a type with another name, is known only
after the file was imported.
"""

import ast
import dataclasses
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, NamedTuple

from jaxrl.errors import UserError
from jaxrl.settings import Range
from jaxrl.settings.fields import (
    TYPES,
    Field,
    call_in,
    definition,
    documented,
    hint,
    value,
    written_fields,
)
from jaxrl.settings.values import NAMES, broken_rule, plain

KINDS = ("OnPolicy", "OffPolicy")
PLAIN_NODES = (ast.AnnAssign, ast.Expr, ast.FunctionDef, ast.Pass)
KNOWN = "bool, int, float, str, dict, Literal and the types of jaxrl.settings"


class FileSettings(NamedTuple):
    """What a file says of its data and its Config."""

    data: str
    """The class of DATA, one of `KINDS`."""
    data_values: dict[str, Any]
    """What DATA has other than by default."""
    config: dict[str, Field]


def read(
    path: str, text: bytes, load: Callable[[], Any] | None, taken: Iterable[str]
) -> FileSettings:
    """The settings of the file at `path`; `load` imports it, if it may be imported.

    Refuses, with its line, a setting whose name is `taken` or whose type or default
    cannot be given on a command line. Without `load`, raises a ValueError where the
    text does not say all.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        at = f", line {line}" if line else ""
        raise UserError(f"cannot read {path}{at}: {error}") from None
    lines = _lines(tree)
    for name in _without_default(tree):
        raise UserError(_sentence(path, name, lines, "has no default; give it one"))
    try:
        found = _from_text(tree)
    except ValueError:
        if load is None:
            raise
        found = _from_module(load(), tree, path)
    for name, field in found.config.items():
        if fault := _fault(name, field, set(taken)):
            raise UserError(_sentence(path, name, lines, fault))
    return found


def _sentence(path: str, name: str, lines: dict[str, int], fault: str) -> str:
    at = f", line {lines[name]}" if name in lines else ""
    return f"{path}{at}: the setting {name} of Config {fault}"


def _without_default(tree: ast.Module) -> list[str]:
    """The fields of Config that are written without a value."""
    try:
        written = written_fields(definition(tree, "Config").body)
    except ValueError:
        return []
    return [name for name, node in written.items() if node.value is None]


def _from_text(tree: ast.Module) -> FileSettings:
    """Raises a ValueError where the text is not enough."""
    for name in ("DATA", "Config"):
        if _count_definitions(tree, name) != 1:
            raise ValueError(f"{name} is not written once")
    data, given = call_in(tree, "DATA")
    config = definition(tree, "Config")
    plain_body = all(isinstance(node, PLAIN_NODES) for node in config.body)
    if data not in KINDS or config.bases or not plain_body:
        raise ValueError("it must be imported to be known")
    names, sentences = _names_of_jaxrl(tree), documented(config.body)
    found = {}
    for name, node in written_fields(config.body).items():
        _check_origin(node.annotation, names)
        sentence = sentences.get(name, "")
        found[name] = Field(hint(node.annotation), value(node.value), sentence)
    return FileSettings(data, given, found)


def _count_definitions(tree: ast.Module, name: str) -> int:
    """How often a name is bound, anywhere at the top or inside of a statement there."""
    stores = sum(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Store)
        for node in ast.walk(tree)
    )
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    imported = _imported(tree)
    return stores + sum(x.name == name for x in classes) + (name in imported)


def _imported(tree: ast.Module) -> dict[str, str]:
    """The names that a file imports, and from where."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {x.asname or x.name.split(".")[0]: x.name for x in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {x.asname or x.name: f"{node.module}.{x.name}" for x in node.names}
    return found


def _names_of_jaxrl(tree: ast.Module) -> set[str]:
    """Those that have the meaning which this room gives them."""
    ours = ("jaxrl.", "typing.Literal")
    return {
        name
        for name, origin in _imported(tree).items()
        if origin.startswith(ours) and name == origin.rpartition(".")[2]
    }


def _check_origin(annotation: ast.expr, names: set[str]) -> None:
    """Raises unless each name in a hint is Python's or jaxrl's."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name) and node.id not in names | TYPES.keys():
            raise ValueError(f"{node.id} is not known without importing the file")


def _from_module(module: Any, tree: ast.Module, path: str) -> FileSettings:
    data = module.DATA
    default = type(data)()
    values = {k: x for k, x in vars(data).items() if x != getattr(default, k)}
    if not dataclasses.is_dataclass(module.Config):
        raise UserError(
            f"{path}: Config is no dataclass; write @settings.pytree above the class"
        )
    hints = typing.get_type_hints(module.Config, include_extras=True)
    sentences: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            sentences |= documented(node.body)
    config = {
        field.name: Field(
            hints[field.name], _default(field), sentences.get(field.name, "")
        )
        for field in dataclasses.fields(module.Config)
    }
    return FileSettings(type(data).__name__, values, config)


def _default(field: dataclasses.Field) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return plain(field.default_factory())
    return plain(field.default)


def _lines(tree: ast.Module) -> dict[str, int]:
    """Where the settings are written, as far as that is in this file."""
    try:
        written = written_fields(definition(tree, "Config").body)
    except ValueError:
        return {}
    return {name: node.lineno for name, node in written.items()}


def _fault(name: str, field: Field, taken: set[str]) -> str:
    """Why it cannot be a setting; empty if it can."""
    if name in taken:
        return "is the name of a setting that every run has; rename it"
    if not _is_known(field.hint):
        shown = getattr(field.hint, "__name__", None) or str(field.hint)
        return f"has the type {shown}, but must have one of {KNOWN}"
    if field.default is dataclasses.MISSING:  # of an inherited one
        return "has no default; give it one"
    rule = broken_rule(field.default, field.hint)
    return rule and f"has the default {field.default!r}, but it must be {rule}"


def _is_known(hint: Any) -> bool:
    """Whether text can be converted to the type and checked."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        of_range = len(arguments) == 2 and isinstance(arguments[1], Range)
        return of_range and arguments[0] in (int, float)
    if origin is Literal:
        return all(isinstance(word, str) for word in arguments)
    if origin is tuple:
        return len(arguments) == 2 and arguments[1] is ... and _is_known(arguments[0])
    return isinstance(hint, type) and hint in NAMES
