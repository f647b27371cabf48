"""What a checkpoint holds of a run, and how a run continues from it."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.errors import UserError
from jaxrl.logging.logger import EpochLogger, LoggerState
from jaxrl.parallel import mpi
from jaxrl.runs import arrays
from jaxrl.runs.checkpoint import Saved
from jaxrl.training.buffers import HostReplay, Rollout
from jaxrl.training.progress import Clock
from jaxrl.training.setup import Setup
from jaxrl.training.user_callbacks import Callbacks


def take(
    setup: Setup, state: Any, log: EpochLogger, clock: Clock, callbacks: Callbacks
) -> dict[str, Any]:
    """The content of a checkpoint, on every rank."""
    own = arrays.to_bytes(rank_state(setup, log) | {"callbacks": callbacks.state()})
    first, *others = map(arrays.from_bytes, mpi.allgather(own))
    return global_state(setup, state, clock) | first | {"ranks": others}


def global_state(setup: Setup, state: Any, clock: Clock) -> dict[str, Any]:
    """What all ranks share."""
    progress = setup.progress
    leaves = arrays.flatten(state)
    check_finite(leaves, progress.env_steps)
    return {
        "env_steps": progress.env_steps,
        "epoch": progress.epoch,
        "epoch_start": progress.epoch_start,
        "best_return": progress.best_return,
        "update_pending": progress.update_pending,
        "stopped_by": progress.stopped_by,
        "stop_reason": progress.stop_reason,
        "elapsed": progress.elapsed_before_resume + clock.elapsed(),
        "state": leaves,
    }


def rank_state(setup: Setup, log: EpochLogger) -> dict[str, Any]:
    """What differs between ranks, but for the rows of a replay buffer."""
    buffer = setup.buffer
    return {
        "act_rng": setup.act_rng.bit_generator.state,
        "batch_rng": setup.batch_rng.bit_generator.state,
        "rollout": buffer.state() if isinstance(buffer, Rollout) else None,
        "envs": setup.envs.saved(),
        "test_envs": setup.test_envs.saved() if setup.test_envs else None,
        "logger": log.state(),
    }


def take_rows(setup: Setup) -> tuple[np.ndarray | None, int]:
    """Replay rows that no checkpoint holds yet, of all ranks on rank 0; their first."""
    if not isinstance(setup.buffer, HostReplay):
        return None, 0
    rows, first = setup.buffer.since(setup.progress.saved_rows)
    setup.progress.saved_rows = setup.buffer.inserted
    return mpi.gather(rows), first


class Restored(NamedTuple):
    """What of a checkpoint is not yet in the setup."""

    state: Any
    logger: LoggerState
    callbacks: dict[str, Any]
    notes: list[str]


def restore(setup: Setup, saved: Saved) -> Restored:
    """Puts a checkpoint into the setup; notes say what could not be restored."""
    try:
        return _restore(setup, saved)
    except Exception as error:  # its checksums are right, but it is not of such a run
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"the checkpoint is not of this run ({reason})") from error


def _restore(setup: Setup, saved: Saved) -> Restored:
    content, rank = saved.content, setup.share.rank
    own = content["ranks"][rank - 1] if rank else content
    progress = setup.progress
    for name in ("env_steps", "epoch", "epoch_start", "best_return", "update_pending"):
        setattr(progress, name, content[name])
    for name in ("stopped_by", "stop_reason"):
        setattr(progress, name, str(content.get(name, "")))
    progress.elapsed_before_resume = content["elapsed"]
    logger = LoggerState.from_saved(own["logger"])
    setup.act_rng.bit_generator.state = own["act_rng"]
    setup.batch_rng.bit_generator.state = own["batch_rng"]
    state = arrays.unflatten(setup.state_shapes, content["state"])
    # Settings are those of the run, which may be longer now.
    asarray = lambda leaf, old: jax.numpy.asarray(leaf, old.dtype)  # noqa: E731
    config = jax.tree.map(asarray, setup.run.config, state.config)
    state = dataclasses.replace(state, config=config)
    if isinstance(setup.buffer, Rollout):
        setup.buffer.restore(own["rollout"])
    elif saved.rows is not None:
        setup.buffer.restore(saved.rows, saved.first)
        progress.saved_rows = setup.buffer.inserted
    return Restored(state, logger, own.get("callbacks", {}), _restore_envs(setup, own))


def _restore_envs(setup: Setup, own: dict[str, Any]) -> list[str]:
    if setup.test_envs:
        setup.test_envs.restore(own["test_envs"])
    lost = setup.envs.restore(own["envs"])
    if not lost:
        return []
    numbers = ", ".join(map(str, lost))
    return [
        f"the episode of environment {numbers} could not be replayed exactly; it was "
        "reset instead"
    ]


def check_finite(values: dict[str, np.ndarray], step: int) -> None:
    for name, value in values.items():
        # A setting may be infinite, where it is a limit.
        if not name.startswith(".config") and not np.isfinite(value).all():
            raise FloatingPointError(f"{name} is not finite at step {step}")
