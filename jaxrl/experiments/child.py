"""A run as a process of its own, which does not outlive the one that started it."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

RUNNER = "JAXRL_RUNNER"
# Runs side by side share the cores, so that each has as many threads as it is given.
THREADS = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PR_SET_PDEATHSIG = 1


def start(
    words: list[str], output: Path, threads: int = 1, launcher: Sequence[str] = ()
) -> subprocess.Popen:
    """`jaxrl` with these words; what it prints is added to the file `output`.

    A `launcher`, such as `srun`, starts it on several machines and sees to its end.
    """
    environment = os.environ | dict.fromkeys(THREADS, str(threads))
    if not launcher:
        environment[RUNNER] = str(os.getpid())
    with output.open("ab") as file:
        return subprocess.Popen(
            [*launcher, sys.executable, "-m", "jaxrl", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            process_group=0,  # so that Ctrl-C comes from the runner, and once
        )


def die_with_the_runner() -> None:
    """In a run that a runner started: ends it as soon as that runner is dead."""
    runner = os.environ.pop(RUNNER, "")
    if not runner or sys.platform != "linux":
        return
    # A run can be killed at any moment and lose nothing that a checkpoint holds.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(runner):  # dead before the request was made
        os.kill(os.getpid(), signal.SIGKILL)
