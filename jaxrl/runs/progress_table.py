"""The table of a run, read from its CSV file. Free of JAX, as all that reads runs."""

import array
import csv
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jaxrl import files
from jaxrl.errors import UserError
from jaxrl.logging.columns import STEPS


def columns(path: Path, run: Path) -> dict[str, np.ndarray]:
    """Of a progress.csv of the run, NaN for empty cells; {} before there is a row."""
    try:
        text = files.read_text(path, files.TABLE, inside=run)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {files.reason(error)}") from None
    whole = text[: text.rfind("\n") + 1]  # a last line without its end is being written
    try:
        found = _table(csv.reader(io.StringIO(whole, newline="")))
    except (ValueError, csv.Error):
        raise UserError(
            f"{path} is damaged: each row must hold a number for each column"
        ) from None
    if found and not np.all(np.abs(found.get(STEPS, np.inf)) < 1e18):
        raise UserError(f"{path} is damaged: it has no numbers of steps, {STEPS}")
    if found and not np.all(np.diff(found[STEPS]) > 0):
        raise UserError(f"{path} is damaged: its steps, {STEPS}, do not increase")
    return found


def _table(rows: Iterator[list[str]]) -> dict[str, np.ndarray]:
    """Row by row, because each cell as a Python object takes six times the memory."""
    header = next(rows, [])
    numbers = array.array("d")
    for row in rows:
        if len(row) != len(header):
            raise ValueError
        numbers.extend(float(cell or "nan") for cell in row)
    if not numbers:
        return {}
    columns = np.array(numbers).reshape(-1, len(header)).T
    return dict(zip(header, columns, strict=True))
