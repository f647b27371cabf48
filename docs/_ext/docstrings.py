"""Docstrings as reStructuredText: they are written to be read as plain text."""

import itertools
import re

from sphinx.application import Sphinx

NAMED_TUPLE = "Alias for field number"  # Python's own text
CODE = re.compile(r"`([^`]+)`(\w?)")


def as_rest(lines: list[str]) -> list[str]:
    """Indented blocks as they stand, `names` as code, and no other markup."""
    made: list[str] = []
    for indented, group in itertools.groupby(lines, is_indented):
        block = list(group)
        made += ["::", "", *block, ""] if indented else inline(block)
    return made


def is_indented(line: str) -> bool:
    return line.startswith("    ")


def inline(block: list[str]) -> list[str]:
    text = "\n".join(block)
    for sign in ("\\", "*", "|"):
        text = text.replace(sign, f"\\{sign}")
    return CODE.sub(r"``\1``\\ \2", text).split("\n")


def process(app: Sphinx, what: str, name: str, *rest: object) -> None:
    lines: list[str] = rest[-1]  # type: ignore[assignment]
    if lines and lines[0].startswith(NAMED_TUPLE):
        lines.clear()
    lines[:] = as_rest(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
