"""Input validation of an algorithm: its settings, its spaces, its batches."""

from typing import Literal

import numpy as np

from jaxrl.settings.instances import checked as config
from jaxrl.types import Discrete, EnvSpec, Transition

__all__ = ["batch", "config", "spec"]


def spec(spec: EnvSpec, algo: str, needs: Literal["any", "bounded"]) -> None:
    """Raises where the algorithm cannot act in the space."""
    if not isinstance(spec, EnvSpec):
        raise TypeError(
            f"{algo}.init takes a jaxrl.types.EnvSpec, got a {type(spec).__module__}."
            f"{type(spec).__name__}; make one with jaxrl.envs.spec_of(env)"
        )
    if needs == "any":
        return
    if isinstance(spec.action, Discrete):
        raise ValueError(
            f"{algo} cannot choose among {spec.action.n} discrete actions: it needs a "
            "bounded Box action space; use vpg, trpo or ppo"
        )
    if not spec.action.bounded:
        raise ValueError(
            f"{algo} acts between bounds, but the action space is {spec.action}; wrap "
            "the environment in one with bounds, or use vpg, trpo or ppo"
        )


def batch(batch: Transition, algo: str, axes: tuple[str, ...]) -> None:
    """Raises where a batch's leading axes are not `axes`: ("T", "N") or ("B",)."""
    if not isinstance(batch, Transition):
        raise TypeError(
            f"{algo}.update takes a jaxrl.types.Transition, got {type(batch).__name__}"
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
            f"{algo}.update takes transitions [{', '.join(axes)}], at least one, with "
            f"`obs` and `next_obs` [{', '.join((*axes, 'obs_size'))}] and a number for "
            f"each reward and flag, but {' and '.join(faults)}"
        )


def _ranks(name: str, lead: int) -> tuple[int, ...]:
    """Ranks that a field may have: discrete actions are numbers, real ones vectors."""
    if name == "action" and lead == 2:
        return (lead, lead + 1)
    return (lead + 1,) if name in ("obs", "next_obs", "action") else (lead,)
