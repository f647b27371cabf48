"""progress.csv: one row per epoch."""

import csv
import io
import os
from pathlib import Path

from jaxrl.logging.appending import append
from jaxrl.logging.columns import Row


class Csv:
    """progress.csv; each row is on the disk, whole, when `write` returns."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.open("ab", buffering=0)

    @property
    def text(self) -> str:
        self._refuse_removed()
        return self._path.read_text()

    def write(self, row: Row, step: int) -> None:
        self._refuse_removed()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not os.fstat(self._file.fileno()).st_size:
            writer.writerow(row)
        writer.writerow("" if x is None else f"{x:.9g}" for x in row.values())
        append(self._file, text.getvalue().encode(), sync=True)

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
