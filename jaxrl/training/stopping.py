"""Signals that ask a run to end. It reads them between its steps."""

import signal
import threading
from types import FrameType
from typing import Any, Self

# Slurm sends SIGUSR1 before it takes the machine away.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class Stop:
    """Notes the first such signal; a second Ctrl-C interrupts at once.

    A handler that saved by itself could do so in the middle of anything.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {one: signal.signal(one, self._note) for one in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)
