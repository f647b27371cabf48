"""The words all rooms share: transitions, spaces, what an algorithm is."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import numpy as np

from jaxrl import settings
from jaxrl.settings import Count, Size

Params = Any
Metrics = dict[str, jax.Array]
Tree = TypeVar("Tree")
Pmean = Callable[[Any], Any]
Real = jax.Array | float


def identity(tree: Tree) -> Tree:
    """The mean over one learner."""
    return tree


class Transition(NamedTuple):
    """Steps of an environment: a rollout [T, N, ...] or a replayed batch [B, ...].

    `next_obs` is what followed the action, never the observation after a reset.
    `terminated` ends the return; `truncated` only the record of it, as a time limit.
    """

    obs: jax.Array
    action: jax.Array
    reward: jax.Array
    next_obs: jax.Array
    terminated: jax.Array
    truncated: jax.Array


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


@settings.pytree
class OnPolicy:
    """How fresh rollouts [T, N] are gathered."""

    steps_per_epoch: Size = 2048
    """Environment steps, over all environments, between two updates."""
    num_envs: Size = 1
    """Environments stepped side by side."""
    epochs: Size = 500
    """Updates in a run."""
    max_ep_len: Size = 1000
    """Steps after which an episode is truncated, if the environment does not before."""
    save_freq: Size = 10
    """Epochs between two saves of the model."""


@settings.pytree
class OffPolicy:
    """How transitions [B] are gathered and replayed."""

    steps_per_epoch: Size = 5000
    """Environment steps, over all environments, between two rows of the log."""
    num_envs: Size = 1
    """Environments stepped side by side."""
    epochs: Size = 200
    """Rows of the log in a run."""
    max_ep_len: Size = 1000
    """Steps after which an episode is truncated, if the environment does not before."""
    save_freq: Size = 1
    """Epochs between two saves of the model."""
    replay_size: Size = 1_000_000
    """Transitions kept; the oldest give way."""
    batch_size: Size = 256
    """Transitions in one update."""
    start_steps: Count = 10_000
    """Steps of uniformly random actions at the start."""
    update_after: Count = 1000
    """Steps before the first update."""
    update_every: Size = 50
    """Steps between two rounds of updates, and the updates in a round."""
    num_test_episodes: Count = 10
    """Episodes of the greedy policy after every epoch."""


class Algorithm(Protocol):
    """What a module in `jaxrl.algos` holds: six names."""

    DATA: OnPolicy | OffPolicy
    Config: Any
    State: Any

    def init(
        self, key: jax.Array, spec: EnvSpec, config: Any = ..., networks: Any = ...
    ) -> Any: ...

    def act(self, state: Any, obs: jax.Array, key: Any = ...) -> jax.Array: ...

    def update(
        self, state: Any, batch: Transition, pmean: Pmean = ...
    ) -> tuple[Any, Metrics]: ...
