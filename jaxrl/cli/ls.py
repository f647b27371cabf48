"""`jaxrl ls [PATH ...] [--json]`."""

import json
from pathlib import Path

from jaxrl.cli import options
from jaxrl.runs.overview import Overview, overviews

HEAD = ["run", "state", "steps", "last", "best", "age", "size"]
UNITS = ("B", "kB", "MB", "GB", "TB")


def main(arguments: list[str]) -> int:
    given = options.parser("ls").parse(arguments)
    wanted = given.paths or ["runs"]
    empty = not given.paths and not Path("runs").exists()
    found = [] if empty else overviews(wanted)
    if given.json:
        print(json.dumps([one._asdict() for one in found]))
    elif found:
        _print(found)
    else:
        print("no runs in runs")
    return 0


def _print(found: list[Overview]) -> None:
    rows = [HEAD, *map(_row, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for run, state, *numbers in rows:
        left = f"{run:{widths[0]}}  {state:{widths[1]}}"
        right = [f"{x:>{w}}" for x, w in zip(numbers, widths[2:], strict=True)]
        print("  ".join([left, *right]).rstrip())


def _row(one: Overview) -> list[str]:
    steps = f"{one.steps}/{one.total_steps}" if one.total_steps else ""
    returns = ["" if x is None else f"{x:.1f}" for x in (one.last, one.best)]
    run = "".join(x if x.isprintable() else "�" for x in one.run)
    return [run, one.state, steps, *returns, _age(one.age), _size(one.size)]


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
