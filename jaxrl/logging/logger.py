"""Epoch statistics: `store` adds values, `dump` writes their statistics as a row."""

import csv
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxrl.logging.columns import Row, spread_columns
from jaxrl.logging.sinks import Sinks
from jaxrl.logging.stats import Stats, merge

ReduceStats = Callable[[Mapping[str, Stats]], dict[str, Stats]]


class Logger:
    """Adds values with `store`; `dump` writes their statistics as a row to the sinks.

    `names` are the row's, in order; those in `spread` have the columns Average, Std,
    Max and Min, all others their mean. `reduce_stats` merges the samples of all ranks.
    The logger owns its sinks and closes them.
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
        self._reserved = frozenset(names)
        self._stats: dict[str, Stats] = {}

    @property
    def stored(self) -> set[str]:
        """The names with samples since the last row."""
        return set(self._stats)

    def store_own(self, values: Any) -> None:
        """Adds a user's metrics, whose names must differ from the library's."""
        if not isinstance(values, Mapping):
            raise TypeError(f"on_epoch returns metrics by name or None, got {values!r}")
        for name, value in values.items():
            if name in self._reserved:
                raise ValueError(f"{name} is a column of jaxrl's; name yours otherwise")
            try:
                self.store(**{name: value})
            except (TypeError, ValueError):
                raise ValueError(f"{name} is {value!r}, but must be a number") from None

    def store(self, **values: Any) -> None:
        """Adds numbers or arrays of them to the epoch's samples."""
        for name, value in values.items():
            self._stats[name] = merge(
                self._stats.get(name, Stats()), Stats.from_values(value)
            )

    def dump(self, step: int) -> Row:
        """Writes the row of this epoch, with None where nothing was stored."""
        merged, self._stats = self._reduce_stats(self._stats), {}
        unknown = merged.keys() - set(self.names)
        if unknown and self.history:
            raise ValueError(
                f"{', '.join(sorted(unknown))} was not in the first row, which fixes "
                "the columns; store it in the first epoch too"
            )
        self.names += sorted(unknown)
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
        return self._row([*known, *sorted(merged.keys() - {*known})], merged)

    def _row(self, names: list[str], merged: Mapping[str, Stats]) -> Row:
        row: Row = {}
        for name in names:
            stats = merged.get(name, Stats())
            values = (stats.mean, stats.n and stats.std, stats.max, stats.min)
            columns = spread_columns(name) if name in self._spread else [name]
            for column, value in zip(columns, values, strict=False):
                row[column] = value if stats.n else None
        return row

    def state(self) -> dict[str, Any]:
        """The names, and the samples since the last row, for a checkpoint."""
        stats = {k: list(dataclasses.astuple(x)) for k, x in self._stats.items()}
        return {"names": list(self.names), "stats": stats}

    def restore(self, state: "LoggerState") -> None:
        self.names, self._stats = state.names, state.stats

    def close(self) -> None:
        self.sinks.close()


@dataclasses.dataclass(frozen=True)
class LoggerState:
    """What `Logger.state` gave, as read from a checkpoint."""

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
