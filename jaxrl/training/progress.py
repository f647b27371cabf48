"""How far a run is, and how long it took."""

import dataclasses
import math
import time


@dataclasses.dataclass
class Progress:
    """The counters of a run; all of them are in its checkpoints."""

    env_steps: int = 0
    """Of all environments of all ranks."""
    epoch: int = 0
    """Epochs that are over."""
    epoch_start: int = 0
    """Steps at the end of the last of them."""
    best_return: float = -math.inf
    update_pending: bool = False
    """Whether the steps of an update are taken, but the update is not."""
    elapsed_before_resume: float = 0.0
    """Seconds of training before this start."""
    stopped_by: str = ""
    """The callback or setting that finished the run before its last step."""
    stop_reason: str = ""
    saved_rows: int = 0
    """Insertions into the replay buffer that a checkpoint holds already."""

    def is_complete(self, total_steps: int) -> bool:
        at_end = self.env_steps >= total_steps or bool(self.stopped_by)
        return at_end and not self.update_pending

    @property
    def stop(self) -> str:
        """Who stopped it and why; empty if nobody did."""
        reason = f": {self.stop_reason}" if self.stop_reason else ""
        return f"stopped by {self.stopped_by}{reason}" if self.stopped_by else ""


class Clock:
    """Times this start, its current epoch, and what the epoch's time was spent on."""

    def __init__(self) -> None:
        self._start = self._epoch_start = time.perf_counter()
        self.env = self.act = self.update = 0.0  # seconds in this epoch

    def elapsed(self) -> float:
        """Seconds since this start."""
        return time.perf_counter() - self._start

    def epoch_row(self, progress: Progress) -> dict[str, float]:
        """The columns of an epoch that is over."""
        seconds = time.perf_counter() - self._epoch_start
        return {
            "Time": progress.elapsed_before_resume + self.elapsed(),
            "StepsPerSecond": (progress.env_steps - progress.epoch_start) / seconds,
            "EnvSeconds": self.env,
            "ActSeconds": self.act,
            "UpdateSeconds": self.update,
        }

    def start_epoch(self) -> None:
        self._epoch_start = time.perf_counter()
        self.env = self.act = self.update = 0.0
