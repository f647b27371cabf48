"""A terminal with colours, by rich, and text that is safe to print there.

rich is imported only when there is a terminal: in a pipe or a notebook all output is
plain lines.
"""

import os
import re
import sys
import typing
from collections.abc import Iterator

if typing.TYPE_CHECKING:
    from rich.console import Console

STATE_STYLES = {
    "running": "cyan",
    "finished": "green",
    "failed": "red",
    "damaged": "red",
    "stopped": "yellow",
    "interrupted": "yellow",
    "pruned": "yellow",
    "waiting": "dim",
}


def terminal() -> "Console | None":
    """The terminal that stdout is; None in a pipe, a notebook or a dumb terminal."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return None
    from rich.console import Console

    # With NO_COLOR, rich itself would still print dim and bold text.
    plain = bool(os.environ.get("NO_COLOR"))
    # Names come from users: no markup, no emoji codes, no guessed highlighting.
    return Console(
        file=sys.stdout,
        color_system=None if plain else "auto",
        markup=False,
        emoji=False,
        highlight=False,
        force_jupyter=False,
    )


def printable(text: str) -> str:
    """The text without control characters, so that a name cannot move the cursor."""
    return "".join(x if x.isprintable() else "�" for x in text)


def shortened(name: str, width: int) -> str:
    """The end of a name, which differs, where the beginning is often the same."""
    return name if len(name) <= width else f"…{name[1 - width :]}"


def folded(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken after a space or a part of a path."""
    lines = [""]
    for piece in _pieces(text, width, (" /", "_-", "")):
        if lines[-1] and len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _pieces(text: str, width: int, separators: tuple[str, ...]) -> Iterator[str]:
    """What is not broken; a piece that is too long is, at the next separators."""
    if len(text.rstrip()) <= width:
        yield text
    elif ends := separators[0]:
        for piece in re.findall(rf"[^{ends}]*[{ends}]|[^{ends}]+", text):
            yield from _pieces(piece, width, separators[1:])
    else:
        yield from (text[i : i + width] for i in range(0, len(text), width))
