"""The terminal: a table and a live line, or in a pipe one plain line per epoch."""

import os
import sys
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from jaxrl.logging.columns import RETURNS, Row
from jaxrl.logging.live_line import LiveLine, Output, in_notebook
from jaxrl.processes.ranks import LIVE, size

PERIOD = 0.1  # seconds between two updates of the live line


class Terminal:
    """A table and a live line on a terminal; elsewhere one plain line per epoch."""

    def __init__(self, total_steps: int, done: int = 0, stream: Any = None) -> None:
        self._output = Output(sys.stdout if stream is None else stream)
        self._line = LiveLine(self._output, total_steps) if self._is_live() else None
        self._total = total_steps
        # Steps and time at the start, then at the ends of the last epochs.
        self._marks = deque([(done, time.perf_counter())], maxlen=6)
        self._shown, self._latest = 0.0, ""

    def _is_live(self) -> bool:
        if size() > 1:  # mpirun gives every rank a pseudo-terminal
            return os.environ.get(LIVE) == "1"
        if self._output.isatty():
            return os.environ.get("TERM") != "dumb"
        return in_notebook()

    def write(self, row: Row, step: int) -> None:
        known = [name for name in RETURNS if row.get(name) is not None]
        self._latest = f"{known[0][7:]} {row[known[0]]:.1f}" if known else ""
        if self._line:
            self.print(table(row.items()))
            self._show(step)
        else:
            self.print("  ".join([f"epoch {row['Epoch']:.0f}", *self._status(step)]))
        self._marks.append((step, time.perf_counter()))

    def progress(self, step: int) -> None:
        """Updates the live line, at most ten times a second."""
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
        # The first epoch includes compilation, so it is used only until there are more.
        later = [mark for mark in list(self._marks)[1:] if mark[0] < step]
        before, then = later[0] if later else self._marks[0]
        made, seconds = step - before, time.perf_counter() - then
        left = seconds * (self._total - step) / max(made, 1)
        parts = [f"{step}/{self._total} steps", f"{made / seconds:.0f} steps/s"]
        parts += [self._latest] if self._latest else []
        return [*parts, f"{clock(left)} left"]


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
