"""Files that users ask for, written as a whole or not at all."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from jaxrl import files
from jaxrl.errors import UserError


@contextlib.contextmanager
def writing(path: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """A name to write to, which becomes `path` when all went well."""
    if path.suffix not in suffixes:
        *most, last = suffixes
        endings = f"{', '.join(most)} or {last}" if most else last
        raise UserError(f"cannot write {path}; its name must end in {endings}")
    if path.is_dir() or not path.parent.is_dir():
        what = (
            "it is a directory" if path.is_dir() else f"{path.parent} is no directory"
        )
        raise UserError(f"cannot write {path}: {what}")
    try:
        with files.replacing(path) as fresh:  # fails before the work is done, not after
            yield fresh
    except OSError as error:
        raise UserError(f"cannot write {path}: {files.reason(error)}") from None
