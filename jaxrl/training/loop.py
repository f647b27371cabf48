"""The training loop: collect, update, evaluate, log, save.

On-policy: a rollout, then one jitted update. Off-policy: `update_every` steps, then
`updates_per_step` updates for each in one scan over batches sampled at once. Between
any two steps a run can be stopped, and a resumed run is identical to one that was not.
Several ranks take every step together.
"""

import fractions
import math
import time
from typing import Any

import numpy as np

from jaxrl.envs.gym import Stepped
from jaxrl.parallel import mpi
from jaxrl.runs import arrays
from jaxrl.training.buffers import Rollout
from jaxrl.training.epoch import (
    Training,
    after_epoch,
    end_epoch,
    save_checkpoint,
    save_models,
)
from jaxrl.training.setup import Setup
from jaxrl.training.snapshot import check_finite
from jaxrl.types import OnPolicy


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
    save_checkpoint(training)
    save_models(training, ["last"])


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


def epoch_is_over(training: Training) -> bool:
    run, progress = training.setup.run, training.setup.progress
    per_epoch = run.data.steps_per_epoch
    over = progress.env_steps // per_epoch > progress.epoch_start // per_epoch
    return over or progress.env_steps >= run.total_steps
