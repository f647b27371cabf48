"""Why a run ended before its time. Free of JAX, as all that reads runs."""

from collections.abc import Iterable
from pathlib import Path

from jaxrl.runs.reading import FAILURE


def cause(run: Path) -> str:
    """As the run left it in its directory or, in a grid, printed it; "" if neither."""
    noted = _text(run / FAILURE).strip()
    return noted or last_words(_text(printed_by(run)))


def printed_by(run: Path) -> Path:
    """What the run of a grid printed."""
    return run.with_name(f"{run.name}.txt")


def last_words(printed: str) -> str:
    """The last line in which jaxrl told its end, or else the last line."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(("jaxrl: ", "stopped by "))]
    return (own or lines or [""])[-1].removeprefix("jaxrl: ")


def never_begun(roots: Iterable[Path]) -> list[Path]:
    """Where runs of a grid would be that printed something and came no further."""
    settings = {
        file.with_suffix("").resolve(): file.with_suffix("")
        for root in roots
        for file in sorted(root.rglob("*_s*.yaml"))
    }
    return [
        run
        for run in settings.values()
        if printed_by(run).exists() and not (run / "config.yaml").exists()
    ]


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
