"""progress.csv: one row per epoch."""

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from jaxrl import files
from jaxrl.logging.appending import append
from jaxrl.logging.columns import Row


class Csv:
    """progress.csv; each row is on the disk, whole, when `write` returns."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.open("ab", buffering=0)
        # On resume there are rows.
        self._columns: list[str] = next(csv.reader(io.StringIO(self.text)), [])

    @property
    def text(self) -> str:
        self._refuse_removed()
        return self._path.read_text()

    def write(self, row: Row, step: int) -> None:
        self._refuse_removed()
        cells = ["" if x is None else f"{x:.9g}" for x in row.values()]
        if list(row) == self._columns:
            append(self._file, _lines([cells]), sync=True)
        else:
            self._replace(list(row), cells)

    def _replace(self, columns: list[str], cells: list[str]) -> None:
        """Writes all rows again, with a column that an earlier row lacks empty there.

        A reader finds the old file or the new one, and so does one after a kill.
        """
        earlier = csv.DictReader(io.StringIO(self.text))
        rows = [[known.get(name, "") for name in columns] for known in earlier]
        files.write_atomically(self._path, _lines([columns, *rows, cells]))
        self._file.close()
        self._file, self._columns = self._path.open("ab", buffering=0), columns

    def _refuse_removed(self) -> None:
        """A removed or replaced file can be written to, but nobody reads it."""
        try:
            if os.path.samestat(self._path.stat(), os.fstat(self._file.fileno())):
                return
        except FileNotFoundError:
            pass
        gone = self._path if self._path.parent.exists() else self._path.parent
        raise FileNotFoundError(f"{gone} was removed or replaced during the run")

    def close(self) -> None:
        self._file.close()


def _lines(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
