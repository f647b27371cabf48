"""Input validation of an algorithm: its settings, its spaces, its batches."""

from typing import Literal

import numpy as np

from jaxrl.settings.instances import checked as config
from jaxrl.types import (
    Box,
    Discrete,
    EnvSpec,
    MultiBinary,
    MultiDiscrete,
    Transition,
)

__all__ = ["batch", "config", "spec"]


def spec(spec: EnvSpec, algo: str, needs: Literal["any", "bounded"]) -> None:
    """Raises an error for an action space that the algorithm does not support."""
    if not isinstance(spec, EnvSpec):
        raise TypeError(
            f"{algo}.init expects a jaxrl.types.EnvSpec, got a {type(spec).__module__}."
            f"{type(spec).__name__}; make one with jaxrl.envs.spec_of(env)"
        )
    if needs == "any":
        return
    if spec.image or spec.image_part:
        raise ValueError(
            f"{algo} has no encoder for images, but the environment observes one; use "
            "vpg, trpo or ppo, or wrap the environment in "
            "gymnasium.wrappers.FlattenObservation for an MLP over its pixels"
        )
    if not isinstance(spec.action, Box):
        raise ValueError(
            f"{algo} needs a bounded Box action space, but the environment has "
            f"{_described(spec.action)}; use vpg, trpo or ppo"
        )
    if not spec.action.bounded:
        raise ValueError(
            f"{algo} needs bounded actions, but the action space is {spec.action}; "
            "wrap the environment to bound them, or use vpg, trpo or ppo"
        )


def _described(action: Discrete | MultiDiscrete | MultiBinary) -> str:
    if isinstance(action, Discrete):
        return f"{action.n} discrete actions"
    return f"the action space {action}"


def batch(batch: Transition, algo: str, axes: tuple[str, ...]) -> None:
    """Raises an error unless the leading axes are `axes`: ("T", "N") or ("B",)."""
    if not isinstance(batch, Transition):
        raise TypeError(
            f"{algo}.update expects a jaxrl.types.Transition, got "
            f"{type(batch).__name__}"
        )
    shapes = {name: np.shape(x) for name, x in batch._asdict().items()}
    lead, rank = shapes["reward"], len(axes)
    faults = [
        f"{name} has shape {shape}"
        for name, shape in shapes.items()
        if shape[:rank] != lead
        or len(shape) not in _ranks(name, rank)
        or shape[rank:] != shapes[name.removeprefix("next_")][rank:]
    ]
    if faults or len(lead) != rank or 0 in lead:
        faults = faults or [f"reward has shape {lead}"]
        raise ValueError(
            f"{algo}.update expects at least one transition, with leading axes "
            f"[{', '.join(axes)}] of all fields and `obs` and `next_obs` "
            f"[{', '.join((*axes, 'obs_size'))}], but {' and '.join(faults)}"
        )


def _ranks(name: str, lead: int) -> tuple[int, ...]:
    """Allowed ranks of a field: one discrete action is a scalar, others vectors."""
    if name == "action" and lead == 2:
        return (lead, lead + 1)
    return (lead + 1,) if name in ("obs", "next_obs", "action") else (lead,)
