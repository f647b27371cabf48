"""The training loop: collect, update, evaluate, log, save.

On-policy: a rollout, then one jitted update. Off-policy: `update_every` steps, then
`updates_per_step` updates for each in one scan over batches sampled at once. Between
any two steps a run can be stopped, and a resumed run is identical to one that was not.
Several ranks take every step together.
"""

import dataclasses
import fractions
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.callbacks import Context
from jaxrl.envs.gym import Stepped
from jaxrl.evaluation import SelfResetting, play
from jaxrl.logging.columns import RETURNS, Row
from jaxrl.logging.logger import EpochLogger
from jaxrl.parallel import mpi
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import arrays, directory
from jaxrl.training import snapshot
from jaxrl.training.buffers import HostReplay, Rollout
from jaxrl.training.callbacks import Callback, EpochEnd
from jaxrl.training.outputs import Saver
from jaxrl.training.progress import Clock
from jaxrl.training.setup import Setup
from jaxrl.training.snapshot import check_finite
from jaxrl.training.user_callbacks import Callbacks
from jaxrl.types import OnPolicy


@dataclasses.dataclass
class Training:
    """A run under way."""

    setup: Setup
    path: Path
    state: Any  # the algorithm's, on each device
    log: EpochLogger
    saver: Saver
    stop: StopRequest
    callbacks: Callbacks = dataclasses.field(default_factory=Callbacks)
    after_epoch: Sequence[Callback] = ()
    clock: Clock = dataclasses.field(default_factory=Clock)

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


def run_loop(training: Training) -> None:
    """Collects, updates and, at the end of each epoch, logs, evaluates and saves."""
    progress, total = training.setup.progress, training.setup.run.total_steps
    training.callbacks.start(training.context())
    if progress.epoch and progress.env_steps == progress.epoch_start:
        after_epoch(training)  # a signal may have come before this was done
    while not progress.is_complete(total):
        if training.stop.reached():
            save_and_stop(training)
            break
        mpi.report_progress()
        if not progress.update_pending:
            collect(training)
            progress.update_pending = update_is_due(training)
        if progress.update_pending:
            if not wait_for_compiler(training):
                continue
            update(training)
            progress.update_pending = False
        if epoch_is_over(training):
            end_epoch(training)
    training.saver.wait()
    training.callbacks.end(training.context())


def save_and_stop(training: Training) -> None:
    """After a signal: what a resumed run needs, and the policy so far to play."""
    setup = training.setup
    step = setup.progress.env_steps
    save_checkpoint(training)
    training.saver.save_models(["last"], setup.envs.spec, training.state, step)


# Collect


def collect(training: Training) -> None:
    """Takes one step in each environment."""
    setup, clock = training.setup, training.clock
    start = time.perf_counter()
    obs = setup.envs.obs.copy()  # which the step will replace
    action = choose_actions(setup, obs)
    acted = time.perf_counter()
    setup.buffer.insert(obs, action, _step(setup, action))
    clock.act += acted - start
    clock.env += time.perf_counter() - acted
    setup.progress.env_steps += setup.share.total_envs
    if training.log.sinks.terminal:
        training.log.sinks.terminal.progress(setup.progress.env_steps)


def choose_actions(setup: Setup, obs: np.ndarray) -> np.ndarray:
    """The policy's; the first `start_steps` are random."""
    random = setup.share.random_actions(setup.progress.env_steps)
    if random <= 0:
        return setup.actor(obs, setup.act_rng)
    chosen = setup.actor(obs, setup.act_rng) if random < len(obs) else None
    shape = (len(obs), setup.envs.spec.action.size)
    action = setup.act_rng.uniform(-1, 1, shape).astype(np.float32)
    if chosen is not None:
        action[random:] = chosen[random:]
    return action


def _step(setup: Setup, action: np.ndarray) -> Stepped:
    try:
        return setup.envs.step(action)
    except FloatingPointError as error:
        step = setup.progress.env_steps
        raise FloatingPointError(f"{error} at step {step}") from None


# Update


def update_is_due(training: Training) -> bool:
    data, steps = training.setup.run.data, training.setup.progress.env_steps
    if isinstance(data, OnPolicy):
        return steps % data.steps_per_epoch == 0
    return training.setup.share.updates_at(steps) > 0


def wait_for_compiler(training: Training) -> bool:
    """Waits until it is done on all ranks; False if a signal came first."""
    terminal = training.log.sinks.terminal
    while True:
        ready = training.setup.learner.ready(0.1)
        (waiting,) = mpi.allreduce_max(int(not ready))
        if not waiting:
            if terminal:
                terminal.compiled()
            return True
        if terminal:
            terminal.compiling(training.setup.progress.env_steps)
        if training.stop.agreed():
            return False


def update(training: Training) -> None:
    """One call of the learner: an on-policy update, or a scan of off-policy ones."""
    setup, step = training.setup, training.setup.progress.env_steps
    start = time.perf_counter()
    result = setup.learner(training.state, next_batch(setup))
    training.state = result.state
    if result.fingerprints is not None:
        mpi.refuse_drift(result.fingerprints, f"at step {step}")
    check_finite(result.metrics, step)
    if not result.finite:
        check_finite(arrays.flatten(training.state), step)
    training.log.store(**result.metrics)
    setup.actor.set_state(setup.devices.single(training.state))
    training.clock.update += time.perf_counter() - start
    if training.log.sinks.terminal:
        training.log.sinks.terminal.updated(step, _steps_between_updates(setup))


def _steps_between_updates(setup: Setup) -> int:
    data, share = setup.run.data, setup.share
    if isinstance(data, OnPolicy):
        return data.steps_per_epoch
    low = min(share.updates_per_round, fractions.Fraction(1))
    return math.ceil(share.round_steps / float(low))


def next_batch(setup: Setup) -> Any:
    if isinstance(setup.buffer, Rollout):
        return setup.buffer.take()
    updates = setup.share.updates_at(setup.progress.env_steps)
    return setup.buffer.sample(setup.batch_rng, updates, setup.share.batch_size)


# At the end of an epoch: log, evaluate, save


def epoch_is_over(training: Training) -> bool:
    run, progress = training.setup.run, training.setup.progress
    per_epoch = run.data.steps_per_epoch
    over = progress.env_steps // per_epoch > progress.epoch_start // per_epoch
    return over or progress.env_steps >= run.total_steps


def end_epoch(training: Training) -> None:
    setup, log, progress = training.setup, training.log, training.setup.progress
    progress.epoch += 1
    episodes = setup.envs.take_finished()
    log.store(EpRet=[episode.returned for episode in episodes])
    log.store(EpLen=[episode.length for episode in episodes])
    evaluate(training)
    log.store(Epoch=progress.epoch, TotalEnvInteracts=progress.env_steps)
    log.store(**training.clock.epoch_row(progress))
    if "LearningRate" not in log.stored:
        log.store(LearningRate=_learning_rate(setup.run.config))
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


def evaluate(training: Training) -> None:
    """Plays greedy test episodes in a separate environment."""
    setup = training.setup
    if setup.test_envs is None:
        return
    episodes = []
    env = SelfResetting(setup.test_envs)
    for step in play(setup.actor, env, setup.test_episodes):
        mpi.report_progress()
        if step.over:
            episodes.append(step)
    training.log.store(TestEpRet=[episode.returned for episode in episodes])
    training.log.store(TestEpLen=[episode.length for episode in episodes])


def _learning_rate(config: Any) -> float:
    """The policy's; the critic's where that has none."""
    names = ("lr", "pi_lr", "vf_lr")
    return next(getattr(config, name) for name in names if hasattr(config, name))


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
    last = progress.is_complete(run.total_steps)
    kept = run.keeps_model(progress.epoch)
    if not (better or last or kept) and progress.epoch % run.data.save_freq:
        return
    if score is not None:
        progress.best_return = max(progress.best_return, score)
    names = {"last": True, "best": better, str(progress.env_steps): kept}
    training.saver.save_models(
        [name for name, is_due in names.items() if is_due],
        training.setup.envs.spec,
        training.state,
        progress.env_steps,
    )


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
    if progress.is_complete(run.total_steps):
        return True
    if not run.checkpoint_every or progress.epoch % run.checkpoint_every:
        return False
    return training.saver.checkpoint_is_affordable(training.clock.elapsed())


def save_checkpoint(training: Training) -> None:
    setup, log = training.setup, training.log
    rows, first = snapshot.take_rows(setup)
    content = snapshot.take(
        setup, training.state, log, training.clock, training.callbacks
    )
    replay = setup.buffer if isinstance(setup.buffer, HostReplay) else None
    capacity = len(replay.rows) if replay else 0
    training.saver.save_checkpoint(content, log.sinks, rows, first, capacity)
    if training.stop.signal:
        training.saver.wait()
