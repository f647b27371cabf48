"""What an algorithm must know of an environment: its observations and its actions.

Free of JAX, so that a policy can be loaded and played without it.
"""

import dataclasses
import math
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Box:
    """Real actions, per dimension between `low` and `high`, which may be infinite."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bounds = tuple(float(x) for x in np.ravel(getattr(self, name)))
            object.__setattr__(self, name, bounds)
        if len(self.low) != len(self.high):
            raise ValueError(
                f"a Box has as many low as high bounds, got {len(self.low)} and "
                f"{len(self.high)}"
            )
        if not self.low:
            raise ValueError("a Box has at least one dimension, got none")
        if not all(low < high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError(
                f"each low bound must be below its high one, got {self}; is "
                "their order right?"
            )

    @property
    def size(self) -> int:
        """Numbers that a network gives for one observation."""
        return len(self.low)

    @property
    def bounded(self) -> bool:
        return all(math.isfinite(bound) for bound in self.low + self.high)

    def scale(self, action: Any) -> Any:
        """From [-1, 1], clipped, to the bounds; without bounds, `action` as it is."""
        low, high = (
            np.broadcast_to(np.asarray(bound, action.dtype), action.shape)
            for bound in (self.low, self.high)
        )
        finite = np.isfinite(low) & np.isfinite(high)
        left, right = np.where(finite, low, -1) / 2, np.where(finite, high, 1) / 2
        return (left + right + (right - left) * action).clip(low, high)


@dataclasses.dataclass(frozen=True)
class Discrete:
    """One of `n` actions, 0 to n - 1 in the library and from `start` outside."""

    n: int
    start: int = 0

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"a Discrete space has at least one action, got {self.n}")

    @property
    def size(self) -> int:
        """Numbers that a network gives for one observation."""
        return self.n

    def scale(self, action: Any) -> Any:
        return action + self.start


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """What an algorithm must know of an environment."""

    obs_size: int
    action: Box | Discrete

    def __post_init__(self) -> None:
        whole = isinstance(self.obs_size, int | np.integer)
        if not whole or isinstance(self.obs_size, bool) or self.obs_size < 1:
            raise ValueError(
                f"obs_size is {self.obs_size!r}, but must be a whole number from 1 on: "
                "the numbers in one observation"
            )
        if not isinstance(self.action, Box | Discrete):
            raise ValueError(
                f"action is a {type(self.action).__module__}."
                f"{type(self.action).__name__}, but must be a jaxrl.types.Box or "
                "Discrete; jaxrl.envs.spec_of(env) makes both"
            )
