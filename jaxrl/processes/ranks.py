"""Being a rank: one of several processes that learn together.

A launcher (mpirun or srun, started by the user or by jaxrl) passes each process its
rank and their number in the environment. This module needs neither MPI nor JAX.
"""

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import NoReturn

from jaxrl.processes import records
from jaxrl.processes.signals import die_with_parent

# The names that Open MPI, MPICH and Slurm use.
SIZE = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
RANK = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
LOCAL_SIZE = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE")
VERBOSE = "--verbose-ranks"  # option of the commands that start runs
LIVE = "JAXRL_LIVE"  # whether the launcher's output goes to a terminal
# Seconds that the other ranks wait, so that rank 0 reports an error common to all. Bad
# input is common to all, and is found while they still start.
RANK0_GRACE, RANK0_GRACE_AT_START = 1.0, 3.0


def _number(names: Iterable[str], default: int) -> int:
    values = (os.environ.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdecimal()), default)


def size() -> int:
    """How many processes a launcher started; 1 without one."""
    return max(_number(SIZE, 1), 1)


def rank() -> int:
    """The number of this process, from 0."""
    return _number(RANK, 0) if size() > 1 else 0


def local_size() -> int:
    """How many of the processes are on this host."""
    return max(_number(LOCAL_SIZE, 1), 1)


def environment_without_ranks() -> dict[str, str]:
    """The environment for a process that a rank starts and that is not a rank."""
    own = (*SIZE, *RANK, *LOCAL_SIZE, records.FILE)
    return {name: value for name, value in os.environ.items() if name not in own}


class Prefixed:
    """A stream that adds a prefix to each line."""

    def __init__(self, stream: object, prefix: str) -> None:
        self._stream, self._prefix, self._at_start = stream, prefix, True

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            start = self._prefix if self._at_start else ""
            self._stream.write(start + line)  # type: ignore[attr-defined]
            self._at_start = line.endswith("\n")
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


_stderr = 2  # also of a rank whose other output is discarded
_verbose = False


def verbose() -> bool:
    """Whether the user asked for the output of all ranks."""
    return _verbose


def prints() -> bool:
    """Whether this rank's output is shown."""
    return _verbose or rank() == 0


def join(verbose: bool) -> None:
    """Makes this process a rank, if a launcher started several.

    The output of all ranks but 0 is discarded or, if `verbose`, gets a prefix.
    """
    global _stderr, _verbose
    _verbose = verbose
    if size() == 1:
        return
    die_with_parent()
    abort_on_uncaught_error()
    records.write(rank(), "started")
    if not rank():
        return
    if verbose:
        sys.stdout = Prefixed(sys.stdout, f"[{rank()}] ")
        sys.stderr = Prefixed(sys.stderr, f"[{rank()}] ")
        return
    _stderr = os.dup(2)
    discarded = os.open(os.devnull, os.O_WRONLY)
    os.dup2(discarded, 1)
    os.dup2(discarded, 2)


def abort_on_uncaught_error() -> None:
    """Without this, the other ranks would wait for this one and never end."""
    sys.excepthook = _abort


def _abort(kind: type, error: BaseException, trace: TracebackType | None) -> None:
    lines = traceback.format_exception(kind, error, trace)
    end_all(1, f"this should not have happened\n{''.join(lines).rstrip()}")


def end_all(exit_code: int, reason: str) -> NoReturn:
    """Ends every rank with this exit code. The reason is printed once."""
    _flush()
    if rank():
        time.sleep(RANK0_GRACE_AT_START if exit_code == 2 else RANK0_GRACE)
    if not records.write(rank(), "failed", reason=reason, exit_code=exit_code):
        with contextlib.suppress(OSError):
            os.write(_stderr, f"jaxrl: {with_rank(rank(), reason)}\n".encode())
    if MPI := sys.modules.get("mpi4py.MPI"):
        MPI.COMM_WORLD.Abort(exit_code)
    os._exit(exit_code)  # before MPI was started, the launcher ends the others


def _flush() -> None:
    with contextlib.suppress(OSError, ValueError):  # the terminal may be closed
        sys.stdout.flush()


def with_rank(rank: int, reason: str) -> str:
    """The reason of a failure, with the rank that gave it; rank 0 reports for all."""
    return f"rank {rank}: {reason}" if rank else reason


def exit_after_stop(stopped_by: signal.Signals) -> NoReturn:
    """Ends this process at once, after all ranks have saved because of a signal."""
    _flush()
    exit_code = 128 + stopped_by
    records.write(rank(), "interrupted", signal=stopped_by.name, exit_code=exit_code)
    if rank():
        time.sleep(RANK0_GRACE)  # a launcher ends all ranks when the first one exits
    os._exit(exit_code)
