"""How many runs are getting on: a live table on a terminal, elsewhere plain lines."""

import math
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from jaxrl.logging.terminal import clock

ORDER = ("running", "failed", "stopped", "pruned", "waiting", "finished")
NUMBERS = 9  # characters of a return and of a time


class Line(NamedTuple):
    """What is shown of one run."""

    name: str
    state: str
    total: int
    cause: str = ""
    output: str = ""
    steps: int = 0
    returned: float | None = None
    seconds: float = 0.0
    """It has run for so long."""
    attempt: int = 1
    """In this go; `cause` tells how the one before it ended."""

    @property
    def steps_of_all(self) -> str:
        return "" if self.state == "waiting" else f"{self.steps}/{self.total}"

    @property
    def left(self) -> float:
        """Seconds, by its pace so far."""
        if not self.steps:
            return math.inf
        return self.seconds * max(self.total - self.steps, 0) / self.steps

    @property
    def done(self) -> int:
        """Steps of the whole that need no more time."""
        over = self.state in ("finished", "failed", "pruned")
        return self.total if over else min(self.steps, self.total)


class Display:
    """Draws lines anew ten times a second at most, or prints each change of state."""

    def __init__(self, name: str, lines: Sequence[Line], expected: int) -> None:
        self._name, self._live = name, sys.stdout.isatty()
        self._begin, self._expected = time.monotonic(), expected
        self._known = {line.name: (line.state, 1) for line in lines}
        self._height, self._drawn = 0, 0.0
        if finished := sum(line.state == "finished" for line in lines):
            self._print(f"{name}: {finished} of {len(lines)} are finished already")

    def show(self, lines: Sequence[Line]) -> None:
        """How they stand now."""
        if not self._live:
            return self._print_changes(lines)
        if time.monotonic() - self._drawn < 0.2:
            return None
        self._drawn = time.monotonic()
        width, height = shutil.get_terminal_size()
        drawn = [text[: width - 1] for text in self._table(lines, width, height - 1)]
        # Over the old one, line by line, so that nothing flickers.
        self._print(
            self._up() + "\n".join(f"{text}\033[K" for text in drawn) + "\033[J"
        )
        self._height = len(drawn)
        return None

    def end(self, lines: Sequence[Line]) -> None:
        """The summary, with the cause of each failure."""
        self._print(f"{self._up()}\033[J" if self._height else "", end="")
        self._print_changes(lines)
        states = Counter(line.state for line in lines)
        counts = [f"{n} {state}" for state, n in states.items() if state != "finished"]
        seconds = clock(time.monotonic() - self._begin)
        head = f"{states['finished']} of {len(lines)} finished"
        self._print(f"\n{self._name}: {', '.join([head, *counts])}, in {seconds}")
        for line in lines:
            if line.state in ("failed", "stopped", "pruned"):
                self._print(f"  {line.name}: {line.cause}\n    {line.output}")

    def _print_changes(self, lines: Sequence[Line]) -> None:
        if self._live:
            return
        for line in lines:
            stage = line.state, line.attempt
            if stage != self._known.get(line.name, ("waiting", 1)):
                self._known[line.name] = stage
                self._print(_sentence(line))

    def _table(self, lines: Sequence[Line], width: int, height: int) -> list[str]:
        """As many as fit, those first that something happens to."""
        states = Counter(line.state for line in lines)
        counts = ", ".join(f"{states[x]} {x}" for x in ORDER if states[x])
        ordered = sorted(lines, key=lambda line: ORDER.index(line.state))
        room = max(height - 4, 1)
        steps = max(5, *(len(line.steps_of_all) for line in lines))
        columns = f"{'steps':>{steps}}  {'return':>{NUMBERS}}  {'left':>{NUMBERS}}"
        widest = max(len(line.name) for line in lines)
        names = max(min(widest, width - len(columns) - 15), 8)
        rows = [_row(line, names, steps) for line in ordered[:room]]
        hidden = len(lines) - len(rows)
        more = [f"  and {hidden} more"] if hidden else []
        head = f"  {'':{names}}  {'':8}  {columns}"
        return [f"{self._name}: {counts}", head, *rows, *more, self._bar(lines, width)]

    def _bar(self, lines: Sequence[Line], width: int) -> str:
        """Of all that is expected; a run counts as its steps."""
        parts = [line.done / max(line.total, 1) for line in lines]
        share = sum(parts) / max(self._expected, len(parts), 1)
        gone = clock(time.monotonic() - self._begin)
        left = _time(self._left(lines))
        times = f" {100 * share:3.0f} %  {gone} gone  {left} left"
        blocks = max(min(30, width - 1 - len(times)), 1)
        filled = int(blocks * share)
        return "█" * filled + "░" * (blocks - filled) + times

    def _left(self, lines: Sequence[Line]) -> float:
        """Seconds, if as many run at a time as now and others take as long as these."""
        known = [line.left + line.seconds for line in lines if line.steps]
        if not known:
            return math.inf
        typical = statistics.mean(known)
        running = [line for line in lines if line.state == "running"]
        waiting = sum(line.state == "waiting" for line in lines)
        waiting += max(self._expected - len(lines), 0)
        each = [line.left if line.steps else typical for line in running]
        together = (sum(each) + waiting * typical) / max(len(running), 1)
        return max(together, *each, 0.0)

    def _up(self) -> str:
        """To where the table begins."""
        return f"\033[{self._height}F" if self._height else ""

    def _print(self, text: str, end: str = "\n") -> None:
        print(text, end=end, flush=True)


def _row(line: Line, width: int, steps_width: int) -> str:
    # The end of a name tells more than its beginning, which all have in common.
    name = line.name if len(line.name) <= width else f"…{line.name[1 - width :]}"
    start = f"  {name:{width}}  {line.state:8}"
    if line.cause and line.state != "running":
        return f"{start}  {line.cause}"
    steps = f"{line.steps_of_all:>{steps_width}}"
    left = _time(line.left) if line.state == "running" else ""
    returned = "" if line.returned is None else _number(line.returned)
    return f"{start}  {steps}  {returned:>{NUMBERS}}  {left:>{NUMBERS}}"


def _sentence(line: Line) -> str:
    if line.cause:
        what = "trying again" if line.state == "running" else line.state
        return f"{what} {line.name}: {line.cause}"
    if line.state != "finished":
        return f"{'started' if line.state == 'running' else line.state} {line.name}"
    returned = "" if line.returned is None else f"  return {_number(line.returned)}"
    return f"finished {line.name}  {line.steps} steps{returned}  {clock(line.seconds)}"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.1f}"


def _time(seconds: float) -> str:
    return clock(seconds) if math.isfinite(seconds) else "?"
