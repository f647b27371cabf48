"""Callbacks: objects whose methods a run calls, as in `jaxrl.train(callbacks=[...])`.

A callback has one or more of these, each of which is given a `Context`:

    on_start    at each start, also of a resumed run, before its first step
    on_epoch    after each epoch; may return metrics by name, or `jaxrl.STOP`
    on_end      after the last step, a `STOP` or a signal

If it depends on earlier epochs, it also has `state()`, which returns numbers, texts,
lists, dicts and arrays for the checkpoint, and `restore(state)`, which is called before
`on_start` when the run is resumed.

With several processes each one calls its own callbacks. Metrics are pooled; the first
process decides whether to stop. Importing this does not import JAX.
"""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl.errors import UserError
from jaxrl.logging.columns import RETURNS, Row

METHODS = ("on_start", "on_epoch", "on_end")


@dataclasses.dataclass(frozen=True)
class Context:
    """What a callback may look at."""

    epoch: int
    """Epochs that are over."""
    step: int
    """Environment steps taken, by all processes."""
    total_steps: int
    row: Row
    """Of the log: in `on_epoch` that of the epoch, before the metrics of callbacks."""
    state: Any
    """The algorithm's; its arrays are reused by the next update, so copy to keep."""
    directory: Path
    settings: Mapping[str, Any]
    """As in config.yaml."""
    rank: int = 0
    """Number of this process; only process 0 should write files."""
    reason: str = ""
    """In `on_end`: why it ended before its last step."""

    @property
    def mean_return(self) -> float | None:
        """Of the test episodes, or else the training's; None if none ended."""
        return next((self.row[name] for name in RETURNS if name in self.row), None)


@dataclasses.dataclass(frozen=True)
class Stop:
    """`on_epoch` returns `STOP`, or `STOP("reason", metrics)`, to finish the run."""

    reason: str = ""
    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __call__(self, reason: str, metrics: Mapping[str, Any] | None = None) -> "Stop":
        """A stop with a reason and last metrics."""
        return Stop(str(reason), metrics or {})


STOP = Stop()


class StopAtReturn:
    """Stops when an epoch's mean return is at least `value`."""

    def __init__(self, value: float) -> None:
        if not isinstance(value, int | float) or math.isnan(value):
            raise UserError(f"StopAtReturn needs a number, got {value!r}")
        self.value = value

    def on_epoch(self, context: Context) -> Stop | None:
        """Stops if the mean return has reached the value."""
        reached = context.mean_return
        if reached is None or reached < self.value:
            return None
        return STOP(f"the mean return of {reached:.6g} has reached {self.value:g}")


class StopWithoutImprovement:
    """Stops after `epochs` epochs whose mean return is not above the best one before.

    Epochs without an episode that ended do not count.
    """

    def __init__(self, epochs: int) -> None:
        if type(epochs) is not int or epochs < 1:
            raise UserError(
                f"StopWithoutImprovement needs a number of epochs, got {epochs!r}"
            )
        self.epochs = epochs
        self.best, self.since = -math.inf, 0

    def on_start(self, context: Context) -> None:
        """Forgets what another run reached."""
        if context.step == 0:  # the object may have been used by another run
            self.best, self.since = -math.inf, 0

    def on_epoch(self, context: Context) -> Stop | None:
        """Stops after too many epochs without a higher mean return."""
        reached = context.mean_return
        if reached is None:
            return None
        self.since = 0 if reached > self.best else self.since + 1
        self.best = max(self.best, reached)
        if self.since < self.epochs:
            return None
        return STOP(f"no mean return above {self.best:.6g} in {self.since} epochs")

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"best": self.best, "since": self.since}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from a checkpoint's state."""
        self.best, self.since = state["best"], state["since"]
