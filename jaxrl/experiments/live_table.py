"""Progress of many runs: a live table on a terminal, elsewhere plain lines."""

import math
import statistics
import sys
import time
import typing
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxrl.logging.console import (
    STATE_STYLES,
    folded,
    printable,
    shortened,
    terminal,
)
from jaxrl.logging.live_line import Output
from jaxrl.logging.terminal import clock

if typing.TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

ORDER = ("running", "waiting", "finished")
ENDED = ("failed", "stopped", "pruned")  # shown with their cause
PERIOD = 1.0  # seconds; drawing 50 rows takes 9 ms, so under 1 % of a core
GAP = 2  # columns between two cells
BAR = 30  # columns of the progress bar, at the most
NAME = 8  # columns of a run's name, at the least


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
    """How long it has trained, up to its last row."""
    wall: float = 0.0
    """How long it has run, with its start-up."""
    attempt: int = 1
    """From 1; `cause` is why the attempt before it failed."""

    @property
    def steps_of_total(self) -> str:
        if self.state == "waiting" or not (self.steps or self.total):
            return ""
        return f"{self.steps}/{self.total}" if self.total else str(self.steps)

    @property
    def left(self) -> float:
        """Estimated seconds to its end."""
        if not self.steps or not self.total:
            return math.inf
        return self.seconds * max(self.total - self.steps, 0) / self.steps

    @property
    def elapsed(self) -> float:
        """Seconds, with those of a start-up that is known."""
        return max(self.seconds, self.wall)

    @property
    def done(self) -> int:
        """Steps that need no more time; all of them where it will not be resumed."""
        return self.total if self._is_over else min(self.steps, self.total)

    @property
    def share(self) -> float:
        """Of the work that needs no more time; the steps may be unknown."""
        return 1.0 if self._is_over else self.done / max(self.total, 1)

    @property
    def _is_over(self) -> bool:
        return self.state in ("finished", "failed", "pruned")


class LiveTable:
    """Redraws a table once a second, or prints each change of state."""

    def __init__(self, name: str, lines: Sequence[Line], expected: int) -> None:
        self._name, self._console = printable(name), terminal()
        self._output = Output(sys.stdout)
        self._begin, self._expected = time.monotonic(), expected
        self._known = {line.name: (line.state, 1) for line in lines}
        self._height, self._drawn = 0, -math.inf
        if finished := sum(line.state == "finished" for line in lines):
            self._print(f"{self._name}: {finished} of {len(lines)} already finished")

    def show(self, lines: Sequence[Line]) -> None:
        """Draws the table, or prints what has changed."""
        if self._console is None:
            self._print_changes(lines)
        elif time.monotonic() - self._drawn > PERIOD:
            self._drawn = time.monotonic()
            self._redraw(self._console, lines)

    def note(self, text: str) -> None:
        """Prints a line above the table, which is drawn again below it."""
        if self._console is not None:
            self._print(f"{self._cursor_to_top()}\033[J", end="")
            self._height, self._drawn = 0, -math.inf
        self._print(printable(text))

    def end(self, lines: Sequence[Line]) -> None:
        """Prints the summary, with the cause of each failure."""
        if self._console is not None:
            self._print(f"{self._cursor_to_top()}\033[J", end="")
            self._height = 0
        else:
            self._print_changes(lines)
        states = Counter(line.state for line in lines)
        counts = [f"{n} {state}" for state, n in states.items() if state != "finished"]
        seconds = clock(time.monotonic() - self._begin)
        head = f"{states['finished']} of {len(lines)} finished"
        self._print(f"\n{self._name}: {', '.join([head, *counts])}, in {seconds}")
        for line in lines:
            if line.state in ENDED:
                self._print_folded(f"{line.name}: {line.cause}", "  ")
                self._print_folded(line.output, "    ")

    def time_left(self, lines: Sequence[Line]) -> float:
        """Estimated seconds, if as many run at a time as now and all take as long."""
        known = [line.left + line.elapsed for line in lines if line.steps]
        if not known or math.inf in known:  # of a function nobody knows the steps
            return math.inf
        typical = statistics.mean(known)
        running = [line for line in lines if line.state == "running"]
        waiting = sum(line.state == "waiting" for line in lines)
        waiting += max(self._expected - len(lines), 0)
        each = [line.left if line.steps else typical for line in running]
        together = (sum(each) + waiting * typical) / max(len(running), 1)
        return max(together, *each, 0.0)

    def _print_changes(self, lines: Sequence[Line]) -> None:
        for line in lines:
            stage = line.state, line.attempt
            if stage != self._known.get(line.name, ("waiting", 1)):
                self._known[line.name] = stage
                self._print(printable(_sentence(line)))

    def _redraw(self, console: "Console", lines: Sequence[Line]) -> None:
        """Writes over the table before, line by line, so that nothing flickers.

        Not by rich's Live, which hides the cursor and leaves it hidden where the
        process is interrupted.
        """
        width, height = console.size
        with console.capture() as captured:
            for part in self._parts(lines, width, height):
                console.print(part)
        drawn = captured.get().removesuffix("\n").split("\n")
        text = "\n".join(f"{row}\033[K" for row in drawn)
        self._print(f"{self._cursor_to_top()}{text}\033[J")
        self._height = len(drawn)

    def _parts(self, lines: Sequence[Line], width: int, height: int) -> list[Any]:
        """A title, as many runs as there is room for, and a bar."""
        states = Counter(line.state for line in lines)
        counts = [f"{states[x]} {x}" for x in (*ORDER, *ENDED) if states[x]]
        room = max(height - 7, 2)  # a title may take two rows
        ended = [line for line in lines if line.state in ENDED]
        others = [line for line in lines if line.state not in ENDED]
        others.sort(key=lambda line: ORDER.index(line.state))
        ended = ended[: max(room // 2, room - len(others))]
        others = others[: room - len(ended)]
        hidden = len(lines) - len(ended) - len(others)
        return [
            f"{self._name}: {', '.join(counts)}",
            *([_progress_table(others, width)] if others else []),
            *([_cause_table(ended, width)] if ended else []),
            *([f"  and {hidden} more"] if hidden else []),
            self._bar(lines, width),
        ]

    def _bar(self, lines: Sequence[Line], width: int) -> "Table":
        """Of all that is expected; a run counts by its steps."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        shares = [line.share for line in lines]
        share = sum(shares) / max(self._expected, len(shares), 1)
        elapsed = clock(time.monotonic() - self._begin)
        left = _time(self.time_left(lines))
        times = f"{100 * share:3.0f} %  {elapsed} elapsed  {left} left"
        row = Table.grid(padding=(0, 1))
        room = max(min(BAR, width - len(times) - 2), 1)
        bar = ProgressBar(1.0, share, width=room, complete_style="cyan")
        row.add_row(bar, times)
        return row

    def _cursor_to_top(self) -> str:
        return f"\033[{self._height}F" if self._height else ""

    def _print_folded(self, text: str, indent: str) -> None:
        """Whole where it is read by programs; on a terminal, within its width."""
        lines = [printable(text)]
        if self._console is not None:
            lines = folded(lines[0], self._console.width - len(indent))
        for line in lines:
            self._print(indent + line)

    def _print(self, text: str, end: str = "\n") -> None:
        print(text, end=end, file=self._output, flush=True)


def _progress_table(lines: Sequence[Line], width: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    numbers = [
        (line.steps_of_total, _number(line.returned), _left(line)) for line in lines
    ]
    heads = ("steps", "return", "left")
    columns = zip(heads, *numbers, strict=True)
    used = sum(max(map(len, column)) + GAP for column in columns)
    used += max(len(line.state) for line in lines) + GAP + 2
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    for head in ("  run", ""):
        table.add_column(head, no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for line, cells in zip(lines, numbers, strict=True):
        state = Text(line.state, STATE_STYLES[line.state])
        table.add_row(_name(line, width - used), state, *cells)
    return table


def _cause_table(lines: Sequence[Line], width: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    names = [_name(line, width // 3) for line in lines]
    used = max(map(len, names)) + max(len(line.state) for line in lines) + 2 * GAP
    table = Table.grid(padding=(0, GAP, 0, 0))
    for room in (None, None, max(width - used - GAP, NAME)):
        table.add_column(no_wrap=True, max_width=room)
    for line, name in zip(lines, names, strict=True):
        state = Text(line.state, STATE_STYLES[line.state])
        table.add_row(name, state, printable(line.cause))
    return table


def _name(line: Line, width: int) -> str:
    return f"  {shortened(printable(line.name), max(width, NAME))}"


def _sentence(line: Line) -> str:
    if line.cause:
        what = "retrying" if line.state == "running" else line.state
        return f"{what} {line.name}: {line.cause}"
    if line.state != "finished":
        return f"{'started' if line.state == 'running' else line.state} {line.name}"
    steps = f"  {line.steps} steps" if line.steps or line.total else ""
    returned = "" if line.returned is None else f"  return {_number(line.returned)}"
    return f"finished {line.name}{steps}{returned}  {clock(line.elapsed)}"


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.1f}"


def _left(line: Line) -> str:
    return _time(line.left) if line.state == "running" else ""


def _time(seconds: float) -> str:
    return clock(seconds) if math.isfinite(seconds) else "?"
