"""Epoch statistics: `store` gathers values, `dump` makes a row of them."""

import csv
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxrl.logging.columns import RETURNS
from jaxrl.logging.stats import Stats, merge

Row = dict[str, float | int | None]


Samples = tuple[list[str], dict[str, Stats]]
Pooled = Callable[[Mapping[str, Stats]], dict[str, Stats]]


class Logger:
    """Gathers values with `store`; `dump` writes their statistics as a row.

    `columns` are the names of the row in order. `spread` are the names that stand as
    Average, Std, Max and Min; all others as their mean. `pooled` puts the samples of
    all processes together; what becomes of the rows is the sinks' business.
    """

    def __init__(
        self, names: list[str], spread: set[str], history: list[Row], pooled: Pooled
    ) -> None:
        self.spread, self.names, self.history = spread, names, history
        self._pooled = pooled
        self._reserved = frozenset(names)
        self._stats: dict[str, Stats] = {}
        self._sinks: list[Any] = []

    def add_sink(self, sink: Any) -> None:
        """Anything with `write(row, step)` and `close()`."""
        self._sinks.append(sink)

    @property
    def returns(self) -> list[str]:
        """The columns by which a run is judged."""
        columns = [column for name in self.names for column in self._columns(name)]
        return [name for name in RETURNS if name in columns]

    def _columns(self, name: str) -> list[str]:
        if name not in self.spread:
            return [name]
        return [f"{kind}{name}" for kind in ("Average", "Std", "Max", "Min")]

    @property
    def stored(self) -> set[str]:
        """The names with samples since the last row."""
        return set(self._stats)

    def store_own(self, values: Any) -> None:
        """Adds a user's metrics, which must not be taken for the library's."""
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
        pooled, self._stats = self._pooled(self._stats), {}
        strangers = pooled.keys() - set(self.names)
        if strangers and self.history:
            raise ValueError(
                f"{', '.join(sorted(strangers))} was not in the first row, and the "
                "columns are fixed then; store it in the first epoch too"
            )
        self.names += sorted(strangers)
        row: Row = {}
        for name in self.names:
            stats = pooled.get(name, Stats())
            kinds = (stats.mean, stats.n and stats.std, stats.max, stats.min)
            for column, value in zip(self._columns(name), kinds, strict=False):
                row[column] = value if stats.n else None
        for sink in self._sinks:
            sink.write(row, step)
        self.history.append(row)
        return row

    def saved(self) -> dict[str, Any]:
        """The names, and the samples since the last row, for a checkpoint."""
        stats = {k: list(dataclasses.astuple(x)) for k, x in self._stats.items()}
        return {"names": list(self.names), "stats": stats}

    @staticmethod
    def samples(saved: Mapping[str, Any]) -> Samples:
        """What `saved` said."""
        stats = {name: Stats(*parts) for name, parts in saved["stats"].items()}
        return list(saved["names"]), stats

    def restore(self, samples: Samples) -> None:
        self.names, self._stats = samples

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()


def rows_of(progress: str) -> list[Row]:
    """Those of a progress.csv."""
    return [
        {name: float(cell) if cell else None for name, cell in row.items()}
        for row in csv.DictReader(progress.splitlines())
    ]
