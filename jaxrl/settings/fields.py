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
    body = definition(_tree(module), cls).body
    written, sentences = written_fields(body), documented(body)
    return {
        name: Field(hint(field.annotation), value(field.value), sentences[name])
        for name, field in written.items()
        if name in sentences
    }


def written_fields(body: list[ast.stmt]) -> dict[str, ast.AnnAssign]:
    """The annotated names in the body of a class."""
    annotated = (node for node in body if isinstance(node, ast.AnnAssign))
    return {x.target.id: x for x in annotated if isinstance(x.target, ast.Name)}


def documented(body: list[ast.stmt]) -> dict[str, str]:
    """The sentences under the fields that have one."""
    return {
        field.target.id: str(doc.value.value)
        for field, doc in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
    }


def call(module: str, name: str) -> tuple[str, dict[str, Any]]:
    """Of an assignment `name = Class(field=value, ...)`, the class and the values."""
    return call_in(_tree(module), name)


def call_in(tree: ast.Module, name: str) -> tuple[str, dict[str, Any]]:
    """The same, of a module that was parsed."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target, made = node.targets[0], node.value
            if isinstance(target, ast.Name) and target.id == name:
                given = {str(k.arg): value(k.value) for k in made.keywords}
                return ast.unparse(made.func).rpartition(".")[2], given
    raise ValueError(f"there is no {name} = Class(...)")


@functools.cache
def _tree(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"there is no module {module}")
    return ast.parse(Path(spec.origin).read_text("utf-8"))


def definition(tree: ast.Module, cls: str) -> ast.ClassDef:
    """Of a class in a module."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == cls:
            return node
    raise ValueError(f"there is no class {cls}")


def hint(node: ast.expr) -> Any:
    """A type of the room `settings`, of Python, or a Literal; else a ValueError."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
        words = ast.literal_eval(node.slice)
        return Literal[words]
    name = ast.unparse(node).rpartition(".")[2]
    known = TYPES.get(name) or vars(settings).get(name)
    if known is None:
        raise ValueError(f"{name} is not a type of settings")
    return known


def value(node: ast.expr | None) -> Any:
    """A default that is written down; else a ValueError."""
    if node is None:
        raise ValueError("a setting has a default")
    written = ast.unparse(node)
    if written in ("float('inf')", "math.inf"):
        return math.inf
    if written.endswith("field(default_factory=dict)"):
        return {}
    return ast.literal_eval(node)
