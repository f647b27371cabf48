"""The terminal: a table and a live line, or in a pipe a plain line an epoch."""

import io
import os
import sys
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from jaxrl.logging.logger import Row
from jaxrl.processes.ranks import LIVE, size

NOTE, EPOCH = "note: ", "epoch "


class Terminal:
    """A table and a live line on a terminal; elsewhere a plain line an epoch."""

    def __init__(self, total_steps: int, done: int = 0, stream: Any = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._live = bool(getattr(self._stream, "isatty", lambda: False)())
        if size() > 1:  # mpirun lets every rank believe that it has a terminal
            self._live = os.environ.get(LIVE) == "1"
        self._total = total_steps
        # Steps and time at the start, then at the ends of the last epochs.
        self._marks = deque([(done, time.perf_counter())], maxlen=6)
        self._shown, self._latest = 0.0, ""

    def write(self, row: Row, step: int) -> None:
        tested = row.get("AverageTestEpRet") is not None
        name = "AverageTestEpRet" if tested else "AverageEpRet"
        value = row.get(name)
        self._latest = "" if value is None else f"{name[7:]} {value:.1f}"
        if self._live:
            self._print("\r\033[K" + table(row.items()))
            self.progress(step, force=True)
        else:
            self._print(f"{EPOCH}{row['Epoch']:.0f}  {self._status(step)}")
        self._marks.append((step, time.perf_counter()))

    def progress(self, step: int, force: bool = False) -> None:
        """The live line, at most ten times a second."""
        now = time.perf_counter()
        if not self._live or (now - self._shown < 0.1 and not force):
            return
        self._shown = now
        done = int(30 * step / self._total)
        bar = "█" * done + "░" * (30 - done)
        self._print(f"\r\033[K{bar} {self._status(step)}", end="")

    def notes(self, texts: Iterable[str]) -> None:
        """A line each."""
        for text in texts:
            self._print(("\r\033[K" if self._live else "") + f"{NOTE}{text}")

    def close(self) -> None:
        if self._live:
            self._print("\r\033[K", end="")

    def _status(self, step: int) -> str:
        # The first epoch compiles, so it counts only until there is more to go by.
        later = [mark for mark in list(self._marks)[1:] if mark[0] < step]
        before, then = later[0] if later else self._marks[0]
        made, seconds = step - before, time.perf_counter() - then
        left = seconds * (self._total - step) / max(made, 1)
        parts = [f"{step}/{self._total} steps", f"{made / seconds:.0f} steps/s"]
        parts += [self._latest] if self._latest else []
        return "  ".join([*parts, f"{clock(left)} left"])

    def _print(self, text: str, end: str = "\n") -> None:
        try:
            print(text, end=end, file=self._stream, flush=True)
        except (OSError, ValueError):  # nobody looks any more; the run goes on
            self._stream, self._live = io.StringIO(), False


def clock(seconds: float) -> str:
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
