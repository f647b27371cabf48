"""Epoch statistics: `store` adds values, `dump` writes their statistics as a row."""

import csv
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from jaxrl.logging.columns import Row, columns_of
from jaxrl.logging.sinks import Sinks
from jaxrl.logging.stats import Stats, merge

ReduceStats = Callable[[Mapping[str, Stats]], dict[str, Stats]]


class EpochLogger:
    """Adds values with `store`; `dump` writes their statistics as a row to the sinks.

    `names` are the row's, in order; those in `spread` have the columns Average, Std,
    Max and Min, all others their mean. A name stored later has its columns at the end
    from then on. `reduce_stats` merges the samples of all ranks. The logger owns its
    sinks and closes them.
    """

    def __init__(
        self,
        names: list[str],
        spread: set[str],
        history: list[Row],
        reduce_stats: ReduceStats,
        sinks: Sinks | None = None,
    ) -> None:
        self.names, self.history = names, history
        self.sinks = sinks or Sinks()
        self._spread, self._reduce_stats = spread, reduce_stats
        self._reserved = frozenset(names) | self._columns([*names, *spread])
        self._stats: dict[str, Stats] = {}

    def _columns(self, names: Iterable[str]) -> set[str]:
        each = (columns_of(name, name in self._spread) for name in names)
        return set(itertools.chain(*each))

    @property
    def stored(self) -> set[str]:
        """The names with samples since the last row."""
        return set(self._stats)

    def store_own(self, values: Any) -> None:
        """Adds a user's metrics, whose names must differ from the library's.

        {"eval": {"return": 1}} is the metric eval/return.
        """
        if not isinstance(values, Mapping):
            raise TypeError(
                "on_epoch returns metrics by name, jaxrl.STOP to end the run, or None, "
                f"got {values!r}"
            )
        for name, value in _flat(values):
            if fault := fault_in_name(name):
                raise ValueError(fault)
            if name in self._reserved:
                raise ValueError(f"{name} is a column of jaxrl's; name yours otherwise")
            try:
                if np.asarray(value).dtype.kind not in "biufV":
                    raise TypeError
                self.store(**{name: value})
            except (TypeError, ValueError):
                raise ValueError(
                    f"{name} is {value!r:.80}, but must be a number or an array"
                ) from None

    def store_stats(self, **stats: Stats) -> None:
        """Adds samples that are summarized already."""
        for name, more in stats.items():
            self._stats[name] = merge(self._stats.get(name, Stats()), more)

    def store(self, **values: Any) -> None:
        """Adds numbers or arrays of them to the epoch's samples."""
        for name, value in values.items():
            self._stats[name] = merge(
                self._stats.get(name, Stats()), Stats.from_values(value)
            )

    def stats(self, name: str) -> Stats | None:
        """Of the samples since the last row, over all ranks; None without any."""
        own = {name: self._stats[name]} if name in self._stats else {}
        return self._reduce_stats(own).get(name)

    def dump(self, step: int) -> Row:
        """Writes the row of this epoch, with None where nothing was stored."""
        merged, self._stats = self._reduce_stats(self._stats), {}
        self._add_names([name for name in merged if name not in self.names])
        row = self._row(self.names, merged)
        self.sinks.write(row, step)
        self.history.append(row)
        return row

    def preview(self) -> Row:
        """The row of this epoch so far, which is not written.

        Of a user's metrics, it has those that are stored already.
        """
        merged = self._reduce_stats(self._stats)
        known = [x for x in self.names if x in self._reserved or x in merged]
        return self._row([*known, *(x for x in merged if x not in known)], merged)

    def _row(self, names: list[str], merged: Mapping[str, Stats]) -> Row:
        row: Row = {}
        for name in names:
            stats = merged.get(name, Stats())
            values = (stats.mean, stats.n and stats.std, stats.max, stats.min)
            columns = columns_of(name, name in self._spread)
            for column, value in zip(columns, values, strict=False):
                row[column] = value if stats.n else None
        return row

    def _add_names(self, names: list[str]) -> None:
        """Adds columns, which are empty in the rows so far."""
        columns = [c for name in names for c in columns_of(name, name in self._spread)]
        for row in self.history:
            row.update(dict.fromkeys(columns))
        self.names += names

    def state(self) -> dict[str, Any]:
        """The names, and the samples since the last row, for a checkpoint."""
        stats = {k: list(dataclasses.astuple(x)) for k, x in self._stats.items()}
        return {"names": list(self.names), "stats": stats}

    def restore(self, state: "LoggerState") -> None:
        self.names, self._stats = state.names, state.stats

    def close(self) -> None:
        self.sinks.close()


def _flat(values: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Values by name, those of an inner mapping by `outer/inner`."""
    for name, value in values.items():
        if isinstance(name, str) and isinstance(value, Mapping):
            yield from ((f"{name}/{inner}", x) for inner, x in _flat(value))
        else:
            yield name, value


def fault_in_name(name: Any) -> str:
    """Why it cannot name a metric; empty if it can."""
    if isinstance(name, str) and name.isprintable() and name.strip():
        return ""
    return f"a metric's name is text in one line, as in 'eval/return', got {name!r}"


@dataclasses.dataclass(frozen=True)
class LoggerState:
    """What `EpochLogger.state` gave, as read from a checkpoint."""

    names: list[str]
    stats: dict[str, Stats]

    @classmethod
    def from_saved(cls, saved: Mapping[str, Any]) -> "LoggerState":
        stats = {name: Stats(*parts) for name, parts in saved["stats"].items()}
        return cls(list(saved["names"]), stats)


def parse_rows(progress: str) -> list[Row]:
    """The rows in the text of a progress.csv."""
    return [
        {name: float(cell) if cell else None for name, cell in row.items()}
        for row in csv.DictReader(progress.splitlines())
    ]
