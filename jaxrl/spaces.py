"""Observation and action spaces of an environment.

Free of JAX, so that a policy can be loaded and run without it.
"""

import dataclasses
import math
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Box:
    """Real actions; `low` and `high` bound each dimension and may be infinite."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bounds = tuple(float(x) for x in np.ravel(getattr(self, name)))
            object.__setattr__(self, name, bounds)
        if len(self.low) != len(self.high):
            raise ValueError(
                f"a Box needs equally many low and high bounds, got {len(self.low)} "
                f"and {len(self.high)}"
            )
        if not self.low:
            raise ValueError("a Box needs at least one dimension, got none")
        if not all(low < high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError(
                f"each low bound must be below its high bound, got {self}; check "
                "their order"
            )

    @property
    def size(self) -> int:
        """Number of outputs of a policy network."""
        return len(self.low)

    @property
    def bounded(self) -> bool:
        return all(math.isfinite(bound) for bound in self.low + self.high)

    def scale(self, action: Any) -> Any:
        """Maps [-1, 1] to the bounds; where a bound is infinite, it only clips."""
        low, high = (
            np.broadcast_to(np.asarray(bound, action.dtype), action.shape)
            for bound in (self.low, self.high)
        )
        finite = np.isfinite(low) & np.isfinite(high)
        left, right = np.where(finite, low, -1) / 2, np.where(finite, high, 1) / 2
        return (left + right + (right - left) * action).clip(low, high)


@dataclasses.dataclass(frozen=True)
class Discrete:
    """One of `n` actions: 0 to n - 1 in jaxrl, from `start` on in the environment."""

    n: int
    start: int = 0

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"Discrete needs at least one action, got {self.n}")

    @property
    def size(self) -> int:
        """Number of outputs of a policy network."""
        return self.n

    def scale(self, action: Any) -> Any:
        return action + self.start


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """The size of observations and the action space of an environment."""

    obs_size: int
    action: Box | Discrete

    def __post_init__(self) -> None:
        is_int = isinstance(self.obs_size, int | np.integer)
        if not is_int or isinstance(self.obs_size, bool) or self.obs_size < 1:
            raise ValueError(
                f"obs_size is {self.obs_size!r}, but must be a whole number >= 1: the "
                "length of an observation"
            )
        if not isinstance(self.action, Box | Discrete):
            raise ValueError(
                f"action is a {type(self.action).__module__}."
                f"{type(self.action).__name__}, but must be a jaxrl.types.Box or "
                "Discrete; jaxrl.envs.spec_of(env) returns an EnvSpec"
            )
