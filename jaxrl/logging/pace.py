"""How fast a run is, by the updates that it has made."""

import time
from collections import deque


class Pace:
    """Steps per second over the last epochs, without the time spent compiling."""

    def __init__(self, step: int) -> None:
        # Steps and time at the start, then at the ends of the last epochs.
        self._marks = deque([(step, time.perf_counter())], maxlen=6)
        self._latest: tuple[int, float] | None = None

    def updated(self, step: int, interval: int) -> None:
        """Notes an update, of which there is one every `interval` steps."""
        now = step, time.perf_counter()
        if self._latest is None and step - self._marks[0][0] > interval:
            self._marks[0] = now  # the steps before were faster: they learned nothing
        self._latest = now

    def end_epoch(self, step: int) -> None:
        if self._latest is not None:
            self._latest = step, time.perf_counter()
            self._marks.append(self._latest)

    def leave_out(self, seconds: float) -> None:
        """Time that has passed and will not pass again."""
        marks = [(step, then + seconds) for step, then in self._marks]
        self._marks = deque(marks, self._marks.maxlen)

    def steps_per_second(self) -> float | None:
        """None before there were updates to time."""
        if self._latest is None:
            return None
        step, now = self._latest
        # The first epoch has one-off costs, so it is used only until there are more.
        later = [mark for mark in list(self._marks)[1:] if mark[0] < step]
        before, then = later[0] if later else self._marks[0]
        return (step - before) / max(now - then, 1e-9) if step > before else None
