"""What every training loop does at the end of an epoch: log, call back, save."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxrl.callbacks import Context
from jaxrl.logging.columns import RETURNS, Row
from jaxrl.logging.logger import EpochLogger
from jaxrl.parallel import mpi
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import directory
from jaxrl.training import snapshot
from jaxrl.training.callbacks import Callback, EpochEnd
from jaxrl.training.outputs import Saver
from jaxrl.training.progress import Clock
from jaxrl.training.user_callbacks import Callbacks


@dataclasses.dataclass
class Training:
    """A run under way."""

    setup: Any  # Setup or JaxSetup
    path: Path
    state: Any  # the algorithm's, on each device
    log: EpochLogger
    saver: Saver
    stop: StopRequest
    callbacks: Callbacks = dataclasses.field(default_factory=Callbacks)
    after_epoch: Sequence[Callback] = ()
    clock: Clock = dataclasses.field(default_factory=Clock)

    @property
    def is_complete(self) -> bool:
        """Whether its last step is made, or a callback has ended it."""
        return self.setup.progress.is_complete(self.setup.run.total_steps)

    def context(self, row: Row | None = None) -> Context:
        """What callbacks are given; the last row, if there is no newer one."""
        setup, signal = self.setup, self.stop.signal
        last = self.log.history[-1] if self.log.history else {}
        return Context(
            epoch=setup.progress.epoch,
            step=setup.progress.env_steps,
            total_steps=setup.run.total_steps,
            row=last if row is None else row,
            state=self.state,
            directory=self.path,
            settings=directory.settings(setup.run),
            rank=setup.share.rank,
            reason=f"stopped by {signal.name}" if signal else setup.progress.stop,
        )


def is_over(training: Training) -> bool:
    """Whether the epoch has all its steps."""
    run, progress = training.setup.run, training.setup.progress
    per_epoch = run.data.steps_per_epoch
    over = progress.env_steps // per_epoch > progress.epoch_start // per_epoch
    return over or progress.env_steps >= run.total_steps


def finish(training: Training) -> None:
    """Logs the epoch's row, calls back, and saves the model and a checkpoint."""
    setup, log, progress = training.setup, training.log, training.setup.progress
    log.store(Epoch=progress.epoch, TotalEnvInteracts=progress.env_steps)
    log.store(**training.clock.epoch_row(progress))
    rate = _learning_rate(setup.run.config)
    if "LearningRate" not in log.stored and rate is not None:
        log.store(LearningRate=rate)
    with mpi.paused():
        call_callbacks(training)
        save_model(training, log.dump(progress.env_steps))
    if progress.stopped_by:
        log.sinks.note(f"{progress.stop}; all is saved")
    after_epoch(training)
    training.clock.start_epoch()
    progress.epoch_start = progress.env_steps
    if checkpoint_is_due(training):
        save_checkpoint(training)


def start(training: Training) -> None:
    """Before the first step of this start."""
    progress = training.setup.progress
    training.callbacks.start(training.context())
    if progress.epoch and progress.env_steps == progress.epoch_start:
        after_epoch(training)  # a signal may have come before this was done


def end(training: Training) -> None:
    """After the last step of this start."""
    training.saver.wait()
    training.callbacks.end(training.context())


def save_and_stop(training: Training) -> None:
    """After a signal: what a resumed run needs, and the policy so far to play."""
    save_checkpoint(training)
    save_models(training, ["last"])


def _learning_rate(config: Any) -> float | None:
    """The policy's, else the critic's; None where a user's algorithm has neither."""
    names = ("lr", "pi_lr", "vf_lr")
    known = (getattr(config, name) for name in names if hasattr(config, name))
    return next(known, None)


def call_callbacks(training: Training) -> None:
    """Those of the user and of the settings, which may add metrics, or stop the run."""
    callbacks, log = training.callbacks, training.log
    stopped = callbacks.call_function(training.context(), log)
    if callbacks.need_row:
        later = callbacks.epoch(training.context(log.preview()), log)
        stopped = stopped or later
    if stopped:
        progress = training.setup.progress
        progress.stopped_by, progress.stop_reason = stopped


def save_model(training: Training, row: Row) -> None:
    """Saves the model as last, as best if it is, and under its step if that is kept."""
    run, progress = training.setup.run, training.setup.progress
    score = next(row[name] for name in RETURNS if name in row)
    better = score is not None and score > progress.best_return
    last = training.is_complete
    kept = run.keeps_model(progress.epoch)
    if not (better or last or kept) and progress.epoch % run.data.save_freq:
        return
    if score is not None:
        progress.best_return = max(progress.best_return, score)
    names = {"last": True, "best": better, str(progress.env_steps): kept}
    save_models(training, [name for name, is_due in names.items() if is_due])


def save_models(training: Training, names: list[str]) -> None:
    """Saves the policy under each of the names."""
    setup, step = training.setup, training.setup.progress.env_steps
    training.saver.save_models(names, setup.spec, training.state, step)
    place = training.saver.model_path(names[0])
    training.log.sinks.write_model(place, names, step)


def after_epoch(training: Training) -> None:
    """What needs the epoch's model."""
    progress = training.setup.progress
    end = EpochEnd(
        progress.epoch, progress.env_steps, training.log.sinks, training.stop
    )
    with mpi.paused():
        for callback in training.after_epoch:
            callback(end)


def checkpoint_is_due(training: Training) -> bool:
    """At the end, and every `checkpoint_every` epochs if it takes little time."""
    run, progress = training.setup.run, training.setup.progress
    if training.is_complete:
        return True
    if not run.checkpoint_every or progress.epoch % run.checkpoint_every:
        return False
    return training.saver.checkpoint_is_affordable(training.clock.elapsed())


def save_checkpoint(training: Training) -> None:
    """Hands the state of the run to the checkpoint writer."""
    setup, log = training.setup, training.log
    rows, first = setup.take_rows()
    content = snapshot.take(
        setup, training.state, log, training.clock, training.callbacks
    )
    training.saver.save_checkpoint(
        content,
        log.sinks,
        mpi.gather(rows) if rows is not None else None,
        first,
        setup.replay_capacity,
    )
    if training.stop.signal:
        training.saver.wait()
