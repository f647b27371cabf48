"""The fields of a settings class, read from its source without importing it.

An algorithm's module imports JAX, which takes a second; its settings, with their
types, defaults and the sentence under each, are in plain sight in its file.
"""

import ast
import functools
import importlib.util
import itertools
import math
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jaxrl import settings

TYPES: dict[str, Any] = {"bool": bool, "int": int, "float": float, "str": str}
TYPES |= {"dict": dict}


class Field(NamedTuple):
    """One setting: what it may be, its default, and the sentence that explains it."""

    hint: Any
    default: Any
    help: str


@functools.cache
def fields(module: str, cls: str) -> dict[str, Field]:
    """Of a class in a module, those that have a sentence under them."""
    body = _definition(module, cls).body
    documented = {
        field.target.id: (field, str(doc.value.value))
        for field, doc in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
    }
    return {
        name: Field(_hint(field.annotation), _value(field.value), sentence)
        for name, (field, sentence) in documented.items()
    }


def call(module: str, name: str) -> tuple[str, dict[str, Any]]:
    """Of an assignment `name = Class(field=value, ...)`, the class and the values."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target, made = node.targets[0], node.value
            if isinstance(target, ast.Name) and target.id == name:
                given = {str(k.arg): _value(k.value) for k in made.keywords}
                return ast.unparse(made.func).rpartition(".")[2], given
    raise ValueError(f"{module} has no {name} = Class(...)")


@functools.cache
def _tree(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"there is no module {module}")
    return ast.parse(Path(spec.origin).read_text("utf-8"))


def _definition(module: str, cls: str) -> ast.ClassDef:
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == cls:
            return node
    raise ValueError(f"{module} has no class {cls}")


def _hint(node: ast.expr) -> Any:
    """A type of the room `settings`, of Python, or a Literal; else a ValueError."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
        words = ast.literal_eval(node.slice)
        return Literal[words]
    name = ast.unparse(node).rpartition(".")[2]
    known = TYPES.get(name) or vars(settings).get(name)
    if known is None:
        raise ValueError(f"{name} is not a type of settings")
    return known


def _value(node: ast.expr | None) -> Any:
    """A default that is written down; else a ValueError."""
    if node is None:
        raise ValueError("a setting has a default")
    written = ast.unparse(node)
    if written in ("float('inf')", "math.inf"):
        return math.inf
    if written.endswith("field(default_factory=dict)"):
        return {}
    return ast.literal_eval(node)
