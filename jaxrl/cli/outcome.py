"""Tells the process that started this one how it ended: as data, in a file it names."""

import contextlib
import os
from pathlib import Path

from jaxrl.processes import ranks
from jaxrl.processes.subprocesses import STATUS
from jaxrl.runs import status
from jaxrl.runs.status import Status

_file = ""


def claim() -> None:
    """Takes the file's name out of the environment, so that no child writes to it."""
    global _file
    _file = os.environ.pop(STATUS, "")


def pass_on() -> None:
    """Lets the ranks that this process starts write it."""
    if _file:
        os.environ[STATUS] = _file


def record(ended: Status) -> None:
    """Rank 0 replaces what others wrote; they write only if there is nothing yet."""
    if not _file or (ranks.rank() and Path(_file).exists()):
        return
    with contextlib.suppress(OSError):  # the disk may be full
        status.write(Path(_file), ended)


def record_if_none(ended: Status) -> None:
    """Of a command that may have started ranks, which know more of a failure."""
    if _file and not Path(_file).exists():
        record(ended)
