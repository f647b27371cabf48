"""`jaxrl ls [PATH ...] [--json]`."""

import json
import sys
import typing
from pathlib import Path

from jaxrl.cli import options
from jaxrl.logging.console import STATE_STYLES, folded, printable, terminal
from jaxrl.runs.overview import Overview, overviews

if typing.TYPE_CHECKING:
    from rich.console import Console

HEAD = ["run", "state", "steps", "last", "last5", "best", "age", "size"]
LEAST_NEEDED = ("size", "last5", "best", "age", "last")  # hidden in this order
GAP = 2  # columns between two cells
NAME = 20  # columns of a run's path, at the least
UNITS = ("B", "kB", "MB", "GB", "TB")


def main(arguments: list[str]) -> int:
    given = options.parser("ls").parse(arguments)
    no_runs = not given.paths and not Path("runs").exists()
    found = [] if no_runs else overviews(given.paths or ["runs"])
    for one in found:
        if one.reason:
            where = "" if one.run in one.reason else f"{one.run}: "
            print(f"jaxrl: {printable(where + one.reason)}", file=sys.stderr)
    if given.json:
        print(json.dumps([one._asdict() for one in found]))
    elif not found:
        print("no runs in runs")
    elif console := terminal():
        _print_table(console, list(map(_row, found)))
    else:
        _print_plain(list(map(_row, found)))
    return 0


def _print_plain(rows: list[list[str]]) -> None:
    """In columns, each line whole: other programs read them."""
    widths = _widths(rows)
    for run, state, *numbers in [HEAD, *rows]:
        left = f"{run:{widths[0]}}  {state:{widths[1]}}"
        right = [f"{x:>{w}}" for x, w in zip(numbers, widths[2:], strict=True)]
        print("  ".join([left, *right]).rstrip())


def _print_table(console: "Console", rows: list[list[str]]) -> None:
    """Within the terminal's width; a path that is too long takes several lines."""
    from rich.table import Table
    from rich.text import Text

    widths = _widths(rows)
    hidden = _hidden(widths, console.width)
    shown = [i for i, head in enumerate(HEAD) if head not in hidden]
    room = max(console.width - sum(widths[i] + GAP for i in shown[1:]), NAME) - GAP
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(HEAD[0], overflow="fold")
    for i in shown[1:]:
        justify: typing.Any = "left" if HEAD[i] == "state" else "right"
        table.add_column(HEAD[i], justify=justify, no_wrap=True)
    for row in rows:
        cells = [Text(row[i]) for i in shown]
        cells[0] = Text("\n".join(folded(row[0], room)))
        cells[1].stylize(STATE_STYLES.get(row[1], ""))
        table.add_row(*cells)
    console.print(table)
    if hidden:
        console.print(f"not shown: {', '.join(hidden)}; see --json", style="dim")


def _hidden(widths: list[int], width: int) -> list[str]:
    """Columns that leave no room for the path of a run."""
    needed = dict(zip(HEAD, widths, strict=True))
    needed["run"] = min(needed["run"], NAME)
    hidden = []
    for head in LEAST_NEEDED:
        if sum(needed.values()) + GAP * len(needed) > width:
            hidden.append(head)
            del needed[head]
    return hidden


def _widths(rows: list[list[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]


def _row(one: Overview) -> list[str]:
    steps = str(one.steps or "")
    steps = f"{one.steps}/{one.total_steps}" if one.total_steps else steps
    returns = ["" if x is None else f"{x:.1f}" for x in (one.last, one.last5, one.best)]
    age, size = _age(one.age), _size(one.size)
    return [printable(one.run), one.state, steps, *returns, age, size]


def _age(seconds: float) -> str:
    for name, long in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= long:
            return f"{seconds / long:.0f} {name}"
    return f"{seconds:.0f} s"


def _size(count: float) -> str:
    unit = 0
    while count >= 1000:
        count, unit = count / 1000, unit + 1
    return f"{count:.3g} {UNITS[unit]}"
