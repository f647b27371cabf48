"""Signals that ask a run to end. It reads them between its steps."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

Greatest = Callable[..., list[int]]
SECONDS = 0.2  # between two questions to all ranks, each of which costs a step's time

# Slurm sends SIGUSR1 before it takes the machine away.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class StopRequest:
    """Notes the first such signal; a second Ctrl-C interrupts at once.

    A handler that saved by itself could do so in the middle of anything. Ranks read it
    together: `greatest` gives, of each number, the greatest that any of them has.
    """

    def __init__(self, greatest: Greatest | None = None) -> None:
        self.signal: signal.Signals | None = None
        self._greatest = greatest
        self._before: dict[signal.Signals, Any] = {}
        self._asked, self._steps, self._pause = time.perf_counter(), 0, 1

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {one: signal.signal(one, self._note) for one in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def reached(self) -> bool:
        """Between two steps: whether to end here, for all ranks alike."""
        self._steps += 1
        if self._greatest and self._steps < self._pause:
            return False
        return self.agreed()

    def agreed(self) -> bool:
        """Asks the others now, and not only when it is time to."""
        if self._greatest is None:
            return self.signal is not None
        now = time.perf_counter()
        in_time = int(SECONDS * self._steps / max(now - self._asked, 1e-9))
        pause = max(1, min(in_time, 2 * self._steps))  # it may become slower
        heard, self._pause = self._greatest(self.signal or 0, pause)
        self._asked, self._steps = now, 0
        self.signal = signal.Signals(heard) if heard else None
        return bool(heard)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
