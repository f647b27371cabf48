"""Reading files that a stranger may have made.

Only a regular file of a sensible size is read, and it is opened without waiting: a
pipe, a device or a huge file in its place is an error and not an endless read. A link
is followed only where it stays inside the directory of its run.
"""

import os
import stat
from pathlib import Path

# Limits in bytes, by what a file is for.
SMALL = 1_000_000  # settings, status, manifests: kilobytes
TABLE = 200_000_000  # progress.csv, output of a run


class Unreadable(OSError):
    """A file that is not read: not regular, too large, or outside of its run."""


def read_bytes(path: Path, limit: int = SMALL, inside: Path | None = None) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    With `inside`, the file must really be in that directory.
    """
    with open(open_regular(path, limit, inside), "rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:  # it has grown since it was opened
        raise too_large(path, limit)
    return data


def read_text(path: Path, limit: int = SMALL, inside: Path | None = None) -> str:
    return read_bytes(path, limit, inside).decode()


def open_regular(path: Path, limit: int, inside: Path | None = None) -> int:
    """A descriptor of the file for reading, once it is known to be safe."""
    real = path
    if inside is not None:
        real = path.resolve()
        if not real.is_relative_to(inside.resolve()):
            raise Unreadable(f"{path} is a link to outside of {inside}")
    # Not waiting for the other end of a pipe; not a link put there since.
    no_link = os.O_NOFOLLOW if inside is not None else 0
    file = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | no_link)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"{path} is not a regular file")
        if status.st_size > limit:
            raise too_large(path, limit)
    except BaseException:
        os.close(file)
        raise
    return file


def too_large(path: Path, limit: int) -> Unreadable:
    return Unreadable(f"{path} has more than {limit:,} bytes")
