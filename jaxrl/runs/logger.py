"""One row an epoch: to the screen, progress.csv, TensorBoard and Weights & Biases."""

import csv
import dataclasses
import math
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

Row = dict[str, float | int | None]


@dataclasses.dataclass(frozen=True)
class Stats:
    """A sample by its size, mean, sum of squares about the mean, least and greatest."""

    n: int = 0
    mean: float = 0.0
    m2: float = 0.0
    min: float = math.inf
    max: float = -math.inf

    @classmethod
    def of(cls, values: Any) -> Self:
        x = np.asarray(values, np.float64).ravel()
        if not x.size:
            return cls()
        mean = x.mean()
        spread = float(((x - mean) ** 2).sum())
        return cls(x.size, float(mean), spread, float(x.min()), float(x.max()))

    @property
    def std(self) -> float:
        return math.sqrt(self.m2 / self.n)


def merge(a: Stats, b: Stats) -> Stats:
    """The summary of both samples together; associative, with `Stats()` as unit."""
    n = a.n + b.n
    if not n:
        return Stats()
    shift = b.mean - a.mean
    m2 = a.m2 + b.m2 + shift**2 * a.n * b.n / n
    return Stats(n, a.mean + shift * b.n / n, m2, min(a.min, b.min), max(a.max, b.max))


class Logger:
    """Gathers values with `store`; `dump` writes their statistics as a row.

    `columns` are the names of the row in order. `spread` are the names that stand as
    Average, Std, Max and Min; all others as their mean.
    """

    def __init__(self, directory: Path, names: list[str], spread: set[str]) -> None:
        self.spread = spread
        self.names = names
        self.columns = [column for name in names for column in self._columns(name)]
        self.history: list[Row] = []
        self._stats: dict[str, Stats] = {}
        self._sinks: list[Any] = [Csv(directory / "progress.csv")]
        self._sinks.append(Board(directory / "tb"))

    def add_sink(self, sink: Any) -> None:
        """Anything with `write(row, step)` and `close()`."""
        self._sinks.append(sink)

    def _columns(self, name: str) -> list[str]:
        if name not in self.spread:
            return [name]
        return [f"{kind}{name}" for kind in ("Average", "Std", "Max", "Min")]

    @property
    def stored(self) -> set[str]:
        """The names with samples since the last row."""
        return set(self._stats)

    def store(self, **values: Any) -> None:
        """Adds numbers or arrays of them to the epoch's samples."""
        for name, value in values.items():
            self._stats[name] = merge(self._stats.get(name, Stats()), Stats.of(value))

    def dump(self, step: int) -> Row:
        """Writes the row of this epoch, with None where nothing was stored."""
        strangers = self._stats.keys() - set(self.names)
        if strangers and self.history:
            raise ValueError(
                f"{', '.join(sorted(strangers))} was not in the first row, and the "
                "columns are fixed then; store it in the first epoch too"
            )
        for name in sorted(strangers):
            self.names.append(name)
            self.columns += self._columns(name)
        row: Row = {}
        for name in self.names:
            stats = self._stats.get(name, Stats())
            kinds = (stats.mean, stats.n and stats.std, stats.max, stats.min)
            for column, value in zip(self._columns(name), kinds, strict=False):
                row[column] = value if stats.n else None
        self._stats = {}
        for sink in self._sinks:
            sink.write(row, step)
        self.history.append(row)
        return row

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()


class Csv:
    """progress.csv; a row is whole on the disk before the next begins."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._begun = False

    def write(self, row: Row, step: int) -> None:
        if not self._begun:
            self._writer.writerow(row)
            self._begun = True
        self._writer.writerow("" if x is None else f"{x:.9g}" for x in row.values())
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class Board:
    """TensorBoard's events."""

    def __init__(self, directory: Path) -> None:
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(directory))

    def write(self, row: Row, step: int) -> None:
        for name, value in row.items():
            if value is not None:
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class Wandb:
    """Weights & Biases; `WANDB_MODE=offline` keeps it on this machine."""

    def __init__(self, directory: Path, name: str, config: Mapping[str, Any]) -> None:
        try:
            import wandb
        except ImportError:
            raise ValueError(
                "--wandb needs the package wandb; install it with pip install "
                "'jaxrl[wandb]'"
            ) from None
        self._run = wandb.init(
            project="jaxrl", name=name, dir=str(directory), config=dict(config)
        )

    def write(self, row: Row, step: int) -> None:
        known = {name: value for name, value in row.items() if value is not None}
        self._run.log(known, step=step)

    def close(self) -> None:
        self._run.finish()


class Screen:
    """A table and a live line on a terminal; elsewhere a plain line an epoch."""

    def __init__(self, total_steps: int, stream: Any = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._live = bool(getattr(self._stream, "isatty", lambda: False)())
        self._total, self._start = total_steps, time.perf_counter()
        self._shown, self._latest = 0.0, ""

    def write(self, row: Row, step: int) -> None:
        name = "AverageTestEpRet" if row.get("AverageTestEpRet") else "AverageEpRet"
        value = row.get(name)
        self._latest = "" if value is None else f"{name[7:]} {value:.1f}"
        if self._live:
            self._print("\r\033[K" + table(row.items()))
            self.progress(step, force=True)
        else:
            self._print(f"epoch {row['Epoch']:.0f}  {self._status(step)}")

    def progress(self, step: int, force: bool = False) -> None:
        """The live line, at most ten times a second."""
        now = time.perf_counter()
        if not self._live or (now - self._shown < 0.1 and not force):
            return
        self._shown = now
        done = int(30 * step / self._total)
        bar = "█" * done + "░" * (30 - done)
        self._print(f"\r\033[K{bar} {self._status(step)}", end="")

    def close(self) -> None:
        if self._live:
            self._print("\r\033[K", end="")

    def _status(self, step: int) -> str:
        seconds = time.perf_counter() - self._start
        left = seconds * (self._total - step) / max(step, 1)
        parts = [f"{step}/{self._total} steps", f"{step / seconds:.0f} steps/s"]
        parts += [self._latest] if self._latest else []
        return "  ".join([*parts, f"{clock(left)} left"])

    def _print(self, text: str, end: str = "\n") -> None:
        print(text, end=end, file=self._stream, flush=True)


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
