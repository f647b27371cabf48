"""What ranks report to the launcher that started them: JSON lines in one file.

The file is in a directory of the launcher's, named by an environment variable. A rank
under another launcher, or on another host, has no such file and prints instead.
"""

import contextlib
import dataclasses
import json
import os
import platform
from pathlib import Path
from typing import Literal

FILE = "JAXRL_RANK_RECORDS"

State = Literal["started", "failed", "interrupted", "killed", "exited"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankRecord:
    """The state of one rank; `killed` and `exited` are known from mpirun only."""

    rank: int
    host: str
    state: State
    pid: int = 0
    reason: str = ""
    signal: str = ""
    exit_code: int = 0


def write(
    rank: int, state: State, *, reason: str = "", signal: str = "", exit_code: int = 0
) -> bool:
    """Reports this process's state; False if there is no launcher to read it."""
    record = RankRecord(
        rank=rank,
        host=platform.node(),
        state=state,
        pid=os.getpid(),
        reason=reason,
        signal=signal,
        exit_code=exit_code,
    )
    line = json.dumps(dataclasses.asdict(record)) + "\n"
    with contextlib.suppress(KeyError, OSError):
        # One write to the end of the file: the lines of two ranks do not mix.
        file = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND)
        try:
            return os.write(file, line.encode()) > 0
        finally:
            os.close(file)
    return False


def read(path: Path) -> list[RankRecord]:
    """All records so far, in the order of writing; none if the file was removed."""
    try:
        lines = path.read_text().splitlines(keepends=True)
    except FileNotFoundError:  # by a program that cleans temporary files
        return []
    return [RankRecord(**json.loads(line)) for line in lines if line.endswith("\n")]
