"""Ranks that watch over one another, so that none waits for ever for one that stands.

Every rank tells the next one each second for how long it has made no step. A rank that
is silent, or has stood still for too long, is named, and all end.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jaxrl.errors import UserError

SECONDS = "JAXRL_STALL_SECONDS"
PATIENCE = 6.0
PERIOD = 1.0


class Watchdog:
    """Of the rank before this one."""

    def __init__(self, communicator: Any, stalled: Callable[[str], None]) -> None:
        self._comm, self._stalled = communicator, stalled
        self._before = (communicator.rank - 1) % communicator.size
        self._after = (communicator.rank + 1) % communicator.size
        self._patience = _patience()
        self._pauses = 0
        self._over = threading.Event()
        self.report_progress()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def report_progress(self) -> None:
        """Says that this rank goes on."""
        self._last_progress = time.monotonic()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """While it waits for others, or does what may take long."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self.report_progress()

    def _idle(self) -> float:
        return 0.0 if self._pauses else time.monotonic() - self._last_progress

    def _run(self) -> None:
        heard = looked = time.monotonic()
        idle = np.zeros(1)
        while not self._over.wait(PERIOD):
            self._comm.Send(np.array([self._idle()]), self._after)
            now = time.monotonic()
            if now - looked > 2 * PERIOD:  # it was this rank that stood, as by Ctrl-Z
                heard, idle[0] = now, 0.0
            looked = now
            while self._comm.Iprobe(self._before):
                self._comm.Recv(idle, self._before)
                heard = now
            if max(now - heard, idle[0]) > self._patience:
                self._stalled(
                    f"jaxrl: rank {self._before} has stood still for more than "
                    f"{self._patience:g} s; all end ({SECONDS} gives it longer)"
                )

    def end(self) -> None:
        """After all ranks came so far; none may stop telling before."""
        with self.paused():
            self._comm.Barrier()
        self._over.set()
        self._thread.join()
        self._comm.Barrier()
        while self._comm.Iprobe(self._before):
            self._comm.Recv(np.zeros(1), self._before)


def _patience() -> float:
    try:
        return float(os.environ.get(SECONDS, PATIENCE))
    except ValueError:
        raise UserError(
            f"{SECONDS} is {os.environ[SECONDS]!r}, but must be a number of seconds"
        ) from None
