"""Signals that ask a run to stop, and the signal that ends a child with its parent."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

AllreduceMax = Callable[..., list[int]]
SECONDS = 0.2  # between two questions to all ranks, each of which costs a step's time

# Slurm sends SIGUSR1 before it ends a job, a terminal SIGHUP when it is closed.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
PR_SET_PDEATHSIG = 1
_noted: list[signal.Signals] = []


def noted() -> signal.Signals | None:
    """The last signal that a `StopRequest` of this process took note of."""
    return _noted[-1] if _noted else None


class StopRequest:
    """Notes the first such signal; a second Ctrl-C interrupts at once.

    The training loop reads it between steps, where the state can be saved. All ranks
    read it together: `allreduce_max` returns, for each number, the maximum over ranks.
    """

    def __init__(self, allreduce_max: AllreduceMax | None = None) -> None:
        self.signal: signal.Signals | None = None
        self._allreduce_max = allreduce_max
        self._handlers_before: dict[signal.Signals, Any] = {}
        self._asked, self._steps, self._interval = time.perf_counter(), 0, 1

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._handlers_before = {
                one: signal.signal(one, self._note)
                for one in SIGNALS
                if one != signal.SIGHUP or not _ignores_hangup()
            }
        return self

    def __exit__(self, *_: object) -> None:
        for one, handler in self._handlers_before.items():
            signal.signal(one, handler)

    def reached(self) -> bool:
        """Between two steps: whether to stop here, the same on all ranks."""
        self._steps += 1
        if self._allreduce_max and self._steps < self._interval:
            return False
        return self.agreed()

    def agreed(self) -> bool:
        """Like `reached`, but asks the other ranks now and not only at intervals."""
        if self._allreduce_max is None:
            return self.signal is not None
        now = time.perf_counter()
        in_time = int(SECONDS * self._steps / max(now - self._asked, 1e-9))
        interval = max(1, min(in_time, 2 * self._steps))  # steps may become slower
        number, self._interval = self._allreduce_max(self.signal or 0, interval)
        self._asked, self._steps = now, 0
        if number:  # else a signal may have come meanwhile, for the next time
            self.signal = signal.Signals(number)
        return bool(number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
        _noted.append(self.signal)


def _ignores_hangup() -> bool:
    """Under nohup, which wants a program to outlive its terminal."""
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def die_with_parent(parent: int = 0) -> None:
    """Asks the kernel to kill this process as soon as its parent is dead."""
    if sys.platform != "linux":
        return
    # A run can be killed at any moment and resumes from its last checkpoint.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:  # it died before the request was made
        os.kill(os.getpid(), signal.SIGKILL)


def signal_name(number: int) -> str:
    """Such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
