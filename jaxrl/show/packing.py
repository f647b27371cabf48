"""The curves of a report: thinned, packed and without repetition.

A curve is one column of one run. Each number is a float32 rounded to three bytes (more
than four digits), which base64 encodes as four characters. Equal curves, such as the
steps of similar runs, are kept once.
"""

import base64
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrl.runs import reading
from jaxrl.runs.reading import Record
from jaxrl.show.curves import PERFORMANCE

MAX_NUMBERS = 800_000  # of all curves together, four bytes each
MAX_POINTS, MIN_POINTS = 400, 2  # per curve: what a screen shows, and what is a line


@dataclasses.dataclass
class UniqueList:
    """Items in the order they were added, equal ones once."""

    items: list[Any] = dataclasses.field(default_factory=list)
    _indices: dict[str, int] = dataclasses.field(default_factory=dict)

    def add(self, item: Any) -> int:
        """The index of the item."""
        index = self._indices.setdefault(repr(item), len(self.items))
        if index == len(self.items):
            self.items.append(item)
        return index


class PackedCurves:
    """The columns of all runs, thinned to at most `MAX_NUMBERS` numbers."""

    def __init__(self, runs: Sequence[Record]) -> None:
        names = dict.fromkeys(name for run in runs for name in run.progress)
        width = sum(len(run.progress) for run in runs)
        self.columns = [PERFORMANCE, *names]
        self.longest = max(map(_epochs, runs))
        self.points = max(min(MAX_NUMBERS // max(width, 1), MAX_POINTS), MIN_POINTS)
        self._texts = UniqueList()

    @property
    def texts(self) -> list[str]:
        return self._texts.items

    def add(self, run: Record) -> list[int]:
        """The index of each of `columns`; -1 where the run has no such column."""
        rows = _even_rows(_epochs(run), self.points)
        progress = run.progress | {PERFORMANCE: reading.returns(run.progress)}
        return [
            self._texts.add(pack(progress[name][rows]))
            if len(progress.get(name, ()))
            else -1
            for name in self.columns
        ]


def _epochs(run: Record) -> int:
    return len(next(iter(run.progress.values()), ()))


def _even_rows(count: int, points: int) -> np.ndarray:
    """Up to `points` of `count` rows, including the first and the last."""
    return np.unique(np.linspace(0, max(count - 1, 0), points).round().astype(int))


def pack(values: np.ndarray) -> str:
    """The upper three bytes of each float32, rounded."""
    with np.errstate(over="ignore"):
        bits = values.astype(np.float32).view(np.uint32) + np.uint32(0x80)
    octets = bits.astype(">u4").view(np.uint8).reshape(-1, 4)
    return base64.b64encode(octets[:, :3].tobytes()).decode()
