"""Observation and action spaces of an environment.

Free of JAX, so that a policy can be loaded and run without it.
"""

import dataclasses
import math
from typing import Any, Literal

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
    def shape(self) -> tuple[int, ...]:
        """Of one action in jaxrl."""
        return (self.size,)

    @property
    def bounded(self) -> bool:
        """Whether all bounds are finite."""
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

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action in jaxrl."""
        return ()

    def scale(self, action: Any) -> Any:
        """The environment's action for one that counts from 0."""
        return action + self.start


@dataclasses.dataclass(frozen=True)
class MultiDiscrete:
    """Several discrete actions at once, the i-th one of `nvec[i]`.

    Each counts from 0 in jaxrl, and from `start[i]` in the environment.
    """

    nvec: tuple[int, ...]
    start: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        nvec = tuple(int(n) for n in np.ravel(self.nvec))
        start = tuple(int(n) for n in np.ravel(self.start)) or (0,) * len(nvec)
        object.__setattr__(self, "nvec", nvec)
        object.__setattr__(self, "start", start)
        if not nvec or min(nvec) < 1 or len(start) != len(nvec):
            raise ValueError(
                "MultiDiscrete needs numbers of actions of at least 1, and as many "
                f"starts, got {nvec} and {start}"
            )

    @property
    def size(self) -> int:
        """Number of outputs of a policy network."""
        return sum(self.nvec)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action in jaxrl."""
        return (len(self.nvec),)

    def scale(self, action: Any) -> Any:
        """The environment's action for one that counts from 0."""
        return action + np.broadcast_to(np.array(self.start, np.int32), action.shape)


@dataclasses.dataclass(frozen=True)
class MultiBinary:
    """`n` switches, each 0 or 1."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"MultiBinary needs at least one switch, got {self.n}")

    @property
    def size(self) -> int:
        """Number of outputs of a policy network."""
        return self.n

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action in jaxrl."""
        return (self.n,)

    def scale(self, action: Any) -> Any:
        """The environment's action, which is the same."""
        return action


ActionSpace = Box | Discrete | MultiDiscrete | MultiBinary


@dataclasses.dataclass(frozen=True)
class Image:
    """An image [H, W, C], or [C, H, W] if `channels_first`, with values up to `high`.

    Rollouts hold it as one flat row; `dtype` is that of the row.
    """

    shape: tuple[int, int, int]
    channels_first: bool = False
    high: float = 255.0
    dtype: Literal["uint8", "float32"] = "uint8"

    def __post_init__(self) -> None:
        shape = tuple(int(side) for side in self.shape)
        object.__setattr__(self, "shape", shape)
        if len(shape) != 3 or min(shape) < 1:
            raise ValueError(f"an image has three sides of at least 1, got {shape}")

    @property
    def size(self) -> int:
        """Length of the flat row."""
        return math.prod(self.shape)

    @property
    def height_width_channels(self) -> tuple[int, int, int]:
        """The shape, whichever axis the channels are."""
        first, second, third = self.shape
        return (second, third, first) if self.channels_first else self.shape


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """The size of observations and the action space of an environment."""

    obs_size: int
    action: ActionSpace
    image: Image | None = None
    """What a flat observation is an image of, if it is one."""
    image_part: bool = False
    """Whether an image is only a part of the observation, as in a Dict or a stack."""

    def __post_init__(self) -> None:
        is_int = isinstance(self.obs_size, int | np.integer)
        if not is_int or isinstance(self.obs_size, bool) or self.obs_size < 1:
            raise ValueError(
                f"obs_size is {self.obs_size!r}, but must be a whole number >= 1: the "
                "length of an observation"
            )
        if not isinstance(self.action, ActionSpace):
            raise ValueError(
                f"action is a {type(self.action).__module__}."
                f"{type(self.action).__name__}, but must be a jaxrl.types.Box, "
                "Discrete, MultiDiscrete or MultiBinary; jaxrl.envs.spec_of(env) "
                "returns an EnvSpec"
            )
        if self.image is not None and self.image.size != self.obs_size:
            raise ValueError(
                f"obs_size is {self.obs_size}, but an image {self.image.shape} has "
                f"{self.image.size} values"
            )

    @property
    def obs_dtype(self) -> str:
        """Of a flat observation."""
        return self.image.dtype if self.image else "float32"
