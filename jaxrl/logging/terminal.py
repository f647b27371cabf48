"""The terminal: a table and a live line, or in a pipe one plain line per epoch."""

import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from jaxrl.logging.columns import CLOCKS, RETURNS, STEPS, Row
from jaxrl.logging.live_line import LiveLine, Output, in_notebook
from jaxrl.logging.pace import Pace
from jaxrl.processes.ranks import LIVE, size

PERIOD = 0.25  # seconds between two updates of the live line


class Terminal:
    """A table and a live line on a terminal; elsewhere one plain line per epoch.

    Where nobody knows the total, there is no live line.
    """

    def __init__(self, total_steps: int = 0, done: int = 0, stream: Any = None) -> None:
        self._output = Output(sys.stdout if stream is None else stream)
        self._has_table = self._is_live()
        has_line = self._has_table and total_steps
        self._line = LiveLine(self._output, total_steps) if has_line else None
        self._total, self._pace = total_steps, Pace(done)
        self._shown, self._latest = 0.0, ""
        self._compiling_since: float | None = None

    def _is_live(self) -> bool:
        if size() > 1:  # mpirun gives every rank a pseudo-terminal
            return os.environ.get(LIVE) == "1"
        if self._output.isatty():
            return os.environ.get("TERM") != "dumb"
        return in_notebook()

    def write(self, row: Row, step: int) -> None:
        self._latest = _main_metric(row)
        self._pace.end_epoch(step)
        if self._has_table:
            self.print(table(row.items()))
            if self._line:
                self._show(step)
        else:
            self.print("  ".join([f"epoch {row['Epoch']:.0f}", *self._status(step)]))

    def updated(self, step: int, interval: int) -> None:
        """Notes an update, of which there is one every `interval` steps."""
        self._pace.updated(step, interval)

    def compiling(self, step: int) -> None:
        """Says that the run waits for the compiler; in a pipe, once."""
        if self._compiling_since is None:
            self._compiling_since = time.perf_counter()
            if not self._line:
                self.print("compiling")
        self.progress(step)

    def compiled(self) -> None:
        if self._compiling_since is not None:
            self._pace.leave_out(time.perf_counter() - self._compiling_since)
        self._compiling_since = None

    def progress(self, step: int) -> None:
        """Updates the live line, at most four times a second."""
        if self._line and time.perf_counter() - self._shown >= PERIOD:
            self._show(step)

    def _show(self, step: int) -> None:
        assert self._line
        self._shown = time.perf_counter()
        self._line.show(step, self._status(step))

    def print(self, text: str) -> None:
        """Prints a line above the live line."""
        (self._line or self._output).print(text)

    def close(self) -> None:
        if self._line:
            self._line.close()

    def _status(self, step: int) -> list[str]:
        parts = [f"{step}/{self._total} steps" if self._total else f"{step} steps"]
        if self._compiling_since is not None:
            return [*parts, "compiling"]
        pace = self._pace.steps_per_second()
        parts += [f"{pace:.0f} steps/s"] if pace else []
        parts += [self._latest] if self._latest else []
        if pace and self._total:
            parts.append(f"{clock((self._total - step) / pace)} left")
        return parts


def _main_metric(row: Row) -> str:
    """The return, or else the first value that is not a counter."""
    known = {name: x for name, x in row.items() if x is not None}
    for name in RETURNS:
        if name in known:
            return f"{name[7:]} {known[name]:.1f}"
    own = [x for x in known if x not in ("Epoch", STEPS, *CLOCKS)]
    return f"{own[0]} {_shown(known[own[0]])}" if own else ""


def clock(seconds: float) -> str:
    """Hours, minutes and seconds, as in 1:02:05."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _shown(value: Any) -> str:
    """Three digits of a real number, all of a whole one."""
    if value is None:
        return ""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.3g}"


def table(items: Iterable[tuple[str, Any]]) -> str:
    """Spinning Up's box of names and values."""
    rows = [(name, _shown(x)) for name, x in items]
    wide = max(len(name) for name, _ in rows)
    rule = "-" * (wide + 22)
    lines = [f"| {name:>{wide}} | {text:>15} |" for name, text in rows]
    return "\n".join([rule, *lines, rule])
