"""Why a run ended before its time. Free of JAX, as all that reads runs."""

import itertools
from collections.abc import Iterable
from pathlib import Path

from jaxrl.logging.terminal import EPOCH, NOTE
from jaxrl.runs.reading import FAILURE

TRACEBACK = "Traceback (most recent call last):"


def cause(run: Path) -> str:
    """As the run left it in its directory or, in a grid, printed it; "" if neither."""
    return note(run) or _end(_text(printed_by(run)))


def note(run: Path) -> str:
    """The cause that the run left in its directory; "" if it left none."""
    return _text(run / FAILURE).strip()


def noted_at(run: Path) -> int:
    """By which the note of one attempt is told from another's; 0 without a note."""
    try:
        return (run / FAILURE).stat().st_mtime_ns
    except OSError:
        return 0


def printed_by(run: Path) -> Path:
    """What the run of a grid printed."""
    return run.with_name(f"{run.name}.txt")


def last_words(printed: str) -> str:
    """As jaxrl told its end, or else Python, or else the last line."""
    told, lines = _told(printed), _lines(printed)
    others = [line for line in lines if not line.startswith((NOTE, EPOCH))]
    return told[-1] if told else _raised(printed) or (others or [""])[-1]


def _end(printed: str) -> str:
    """As jaxrl told it, or else Python; "" if neither did."""
    return (_told(printed) or [_raised(printed)])[-1]


def _raised(printed: str) -> str:
    """What the last traceback ends with, in a line; "" without one."""
    _, found, rest = printed.rpartition(TRACEBACK)
    lines = rest.splitlines()
    error = itertools.dropwhile(lambda line: not line or line.startswith(" "), lines)
    return " ".join(" ".join(error).split()) if found else ""


def _told(printed: str) -> list[str]:
    own = [x for x in _lines(printed) if x.startswith(("jaxrl: ", "stopped by "))]
    return [x.removeprefix("jaxrl: ").removesuffix("; go on with") for x in own]


def _lines(printed: str) -> list[str]:
    return [line.strip() for line in printed.splitlines() if line.strip()]


def never_begun(roots: Iterable[Path]) -> list[Path]:
    """Where runs of a grid would be that told their end before they began."""
    settings = {
        file.with_suffix("").resolve(): file.with_suffix("")
        for root in roots
        for file in sorted(root.rglob("*_s*.yaml"))
    }
    return [
        run
        for run in settings.values()
        if not (run / "config.yaml").exists() and _end(_text(printed_by(run)))
    ]


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
