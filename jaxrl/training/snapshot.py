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
from jaxrl.training.progress import Clock
from jaxrl.training.user_callbacks import Callbacks

# Types of the counters that are not whole numbers.
NUMBERS: dict[str, tuple[type, ...]] = {"update_pending": (bool,)}
NUMBERS |= dict.fromkeys(["best_return", "elapsed"], (int, float))


def take(
    setup: Any, state: Any, log: EpochLogger, clock: Clock, callbacks: Callbacks
) -> dict[str, Any]:
    """The content of a checkpoint, on every rank."""
    own = arrays.to_bytes(
        setup.saved() | {"logger": log.state(), "callbacks": callbacks.state()}
    )
    first, *others = map(arrays.from_bytes, mpi.allgather(own))
    return global_state(setup, state, clock) | first | {"ranks": others}


def global_state(setup: Any, state: Any, clock: Clock) -> dict[str, Any]:
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
        "spaces": _spaces(setup),
    }


def _spaces(setup: Any) -> dict[str, Any]:
    """What a resumed run's environments must have in common with the run's."""
    return {"observations": setup.spec.obs_size, "actions": str(setup.spec.action)}


class Restored(NamedTuple):
    """What of a checkpoint is not yet in the setup."""

    state: Any
    logger: LoggerState
    callbacks: dict[str, Any]
    notes: list[str]


def restore(setup: Any, saved: Saved) -> Restored:
    """Puts a checkpoint into the setup; notes say what could not be restored."""
    before, now = saved.content.get("spaces"), _spaces(setup)
    if before not in (None, now):
        raise UserError(
            f"the environment has changed: the run has {before}, but it has {now}"
        )
    try:
        return _restore(setup, saved)
    except Exception as error:  # its checksums are right, but it is not of such a run
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"the checkpoint is not of this run ({reason})") from error


def _number(content: dict[str, Any], name: str) -> float:
    """A counter; a stranger's checkpoint may have anything in its place."""
    value = content[name]
    if type(value) not in NUMBERS.get(name, (int,)):
        raise TypeError(f"{name} is {value!r:.60}")
    return value


def _restore(setup: Any, saved: Saved) -> Restored:
    content, rank = saved.content, setup.share.rank
    own = content["ranks"][rank - 1] if rank else content
    progress = setup.progress
    for name in ("env_steps", "epoch", "epoch_start", "best_return", "update_pending"):
        setattr(progress, name, _number(content, name))
    for name in ("stopped_by", "stop_reason"):
        setattr(progress, name, str(content.get(name, "")))
    progress.elapsed_before_resume = _number(content, "elapsed")
    logger = LoggerState.from_saved(own["logger"])
    state = arrays.unflatten(setup.state_shapes, content["state"])
    # Settings are those of the run, which may be longer now.
    asarray = lambda leaf, old: jax.numpy.asarray(leaf, old.dtype)  # noqa: E731
    config = jax.tree.map(asarray, setup.run.config, state.config)
    state = dataclasses.replace(state, config=config)
    notes = setup.restore(own, saved.rows, saved.first)
    return Restored(state, logger, own.get("callbacks", {}), notes)


def check_finite(values: dict[str, np.ndarray], step: int) -> None:
    """Raises an error that names the first value that is not finite."""
    for name, value in values.items():
        # A setting may be infinite, where it is a limit.
        if not name.startswith(".config") and not np.isfinite(value).all():
            raise FloatingPointError(f"{name} is not finite at step {step}")
