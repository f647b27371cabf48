"""Appending to a file whole pieces only."""

import errno
import os
from typing import BinaryIO


def append(file: BinaryIO, data: bytes, sync: bool = False) -> None:
    """Writes all of `data` to an unbuffered file or, on a full disk, nothing."""
    size = os.fstat(file.fileno()).st_size
    try:
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if sync:
            os.fsync(file.fileno())
    except OSError as error:
        file.truncate(size)
        error.filename = file.name  # Python names it only where a file is opened
        raise
