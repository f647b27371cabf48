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
from jaxrl.evaluation import SelfResetting, play
from jaxrl.parallel import mpi
from jaxrl.runs import arrays
from jaxrl.training import epoch
from jaxrl.training.buffers import Rollout
from jaxrl.training.epoch import Training
from jaxrl.training.setup import Setup
from jaxrl.training.snapshot import check_finite
from jaxrl.types import OnPolicy


def run_loop(training: Training) -> None:
    """Collects, updates and, at the end of each epoch, logs, evaluates and saves."""
    progress, total = training.setup.progress, training.setup.run.total_steps
    epoch.start(training)
    while not progress.is_complete(total):
        if training.stop.reached():
            epoch.save_and_stop(training)
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
        if epoch.is_over(training):
            end_epoch(training)
    epoch.end(training)


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
    """Whether an update is due after this step."""
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
    """The rollout, or batches from the replay buffer."""
    if isinstance(setup.buffer, Rollout):
        return setup.buffer.take()
    updates = setup.share.updates_at(setup.progress.env_steps)
    return setup.buffer.sample(setup.batch_rng, updates, setup.share.batch_size)


# At the end of an epoch


def end_epoch(training: Training) -> None:
    """Evaluates, logs, calls callbacks and saves."""
    setup, log = training.setup, training.log
    setup.progress.epoch += 1
    episodes = setup.envs.take_finished()
    log.store(EpRet=[episode.returned for episode in episodes])
    log.store(EpLen=[episode.length for episode in episodes])
    evaluate(training)
    epoch.finish(training)


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
