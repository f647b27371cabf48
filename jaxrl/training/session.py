"""One start of a run: restores it, opens what it writes, runs the loop, closes all."""

import contextlib
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl.logging.columns import RETURNS, STEPS, Row
from jaxrl.parallel import mpi
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import arrays
from jaxrl.runs.checkpoint import Saved
from jaxrl.runs.spec import Run
from jaxrl.training import jax_loop, loop, snapshot
from jaxrl.training.callbacks import Callback
from jaxrl.training.epoch import Training
from jaxrl.training.jax_setup import JaxSetup
from jaxrl.training.outputs import open_outputs
from jaxrl.training.setup import AnySetup
from jaxrl.training.user_callbacks import Callbacks


class Result(NamedTuple):
    """The outcome of a run."""

    state: Any
    history: list[Row]
    directory: Path
    stopped_by: signal.Signals | None = None
    """The signal that stopped it before its last step; the rest can be resumed."""
    reason: str = ""
    """Why a callback finished it before its last step."""

    def __repr__(self) -> str:
        """Short, for a notebook: no arrays and no table."""
        row = self.history[-1] if self.history else {}
        steps = row.get(STEPS) or 0
        parts = [f"directory={str(self.directory)!r}", f"steps={steps:.0f}"]
        parts += [f"{x}={row[x]:.1f}" for x in RETURNS if row.get(x) is not None]
        parts += [f"stopped_by={self.stopped_by.name}"] if self.stopped_by else []
        parts += [f"reason={self.reason!r}"] if self.reason else []
        return f"Result({', '.join(parts)})"


class Start(NamedTuple):
    """A run that is prepared, to train from its first step or from a checkpoint."""

    setup: AnySetup
    path: Path
    saved: Saved | None = None
    notes: Sequence[str] = ()
    callbacks: Callbacks = Callbacks()
    after_epoch: Sequence[Callback] = ()


def run(start: Start, screen: bool = True) -> Result:
    """Trains to the last step or a signal."""
    setup = start.setup
    stop = StopRequest(mpi.allreduce_max if setup.share.ranks > 1 else None)
    with opened(start, stop, screen) as training, stop, mpi.watchdog():
        if isinstance(setup, JaxSetup):
            jax_loop.run_loop([training], training.log.sinks.terminal)
        else:
            loop.run_loop(training)
    return result(training)


@contextlib.contextmanager
def opened(start: Start, stop: StopRequest, screen: bool) -> Iterator[Training]:
    """Restores a run and opens what it writes."""
    setup, path, saved, notes, callbacks, after_epoch = start
    if saved is None or not is_complete(setup.run, saved):
        setup.compile()
    restored = snapshot.restore(setup, saved) if saved else None
    state = sync_replicas(setup, restored.state if restored else setup.init_state())
    setup.start(state)
    log, saver = open_outputs(setup, path, saved, screen)
    try:
        if restored:
            log.restore(restored.logger)
            callbacks.restore(restored.callbacks)
        for note in [*notes, *(restored.notes if restored else [])]:
            log.sinks.note(note)
        yield Training(setup, path, state, log, saver, stop, callbacks, after_epoch)
    finally:
        saver.close()
        log.close()
        setup.close()


def result(training: Training) -> Result:
    """What a run returns to Python."""
    outcome = training.stop.signal, training.setup.progress.stop
    return Result(training.state, training.log.history, training.path, *outcome)


def is_complete(run: Run, saved: Saved) -> bool:
    """Whether a checkpoint is the end of its run."""
    at_end = saved.content["env_steps"] >= run.total_steps
    at_end = at_end or bool(saved.content.get("stopped_by"))
    return at_end and not saved.content.get("update_pending")


def sync_replicas(setup: AnySetup, state: Any) -> Any:
    """The state of rank 0, on each device of each rank."""
    if setup.share.ranks > 1:
        leaves = mpi.broadcast(arrays.flatten(state))
        state = arrays.unflatten(state, leaves)
    return setup.replicate(state)
