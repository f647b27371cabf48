"""Types that the whole package shares: transitions, data settings, algorithms."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import jax

from jaxrl import settings
from jaxrl.settings import Count, Ratio, Size
from jaxrl.spaces import Box as Box
from jaxrl.spaces import Discrete as Discrete
from jaxrl.spaces import EnvSpec as EnvSpec
from jaxrl.spaces import Image as Image
from jaxrl.spaces import MultiBinary as MultiBinary
from jaxrl.spaces import MultiDiscrete as MultiDiscrete

Params = Any
Metrics = dict[str, jax.Array]
Tree = TypeVar("Tree")
Pmean = Callable[[Any], Any]
Real = jax.Array | float


def identity(tree: Tree) -> Tree:
    """The `pmean` of a single learner."""
    return tree


class Transition(NamedTuple):
    """Steps of an environment: a rollout [T, N, ...] or a replayed batch [B, ...].

    `next_obs` follows the action and is never the observation after a reset.
    `terminated` ends the return; `truncated` (a time limit) only ends the recording.
    """

    obs: jax.Array
    action: jax.Array
    reward: jax.Array
    next_obs: jax.Array
    terminated: jax.Array
    truncated: jax.Array


@settings.pytree
class OnPolicy:
    """How rollouts [T, N] are collected."""

    steps_per_epoch: Size = 2048
    """Environment steps per epoch and update, over all environments and processes."""
    num_envs: Size = 1
    """Parallel environments per process."""
    epochs: Size = 500
    """Number of epochs in a run, each with one update."""
    max_ep_len: Size = 1000
    """Maximum steps per episode; longer episodes are truncated."""
    save_freq: Size = 10
    """Save the model every N epochs."""
    num_test_episodes: Count = 0
    """Evaluation episodes of the greedy policy after every epoch; 0 disables."""


@settings.pytree
class OffPolicy:
    """How transitions are collected and batches [B] of them replayed."""

    steps_per_epoch: Size = 5000
    """Environment steps per epoch, over all environments and processes."""
    num_envs: Size = 1
    """Parallel environments per process."""
    epochs: Size = 200
    """Number of epochs in a run, each with one row of the log."""
    max_ep_len: Size = 1000
    """Maximum steps per episode; longer episodes are truncated."""
    save_freq: Size = 1
    """Save the model every N epochs."""
    replay_size: Size = 1_000_000
    """Replay capacity, over all processes."""
    batch_size: Size = 128
    """Transitions per update, over all processes."""
    start_steps: Count = 10_000
    """Environment steps with uniformly random actions at the start."""
    update_after: Count = 1000
    """Environment steps before the first update."""
    update_every: Size = 50
    """Environment steps between rounds of updates."""
    updates_per_step: Ratio = 1.0
    """Updates per environment step, of all processes; fractions such as 0.5 too."""
    num_test_episodes: Count = 10
    """Evaluation episodes of the greedy policy after every epoch; 0 disables."""


class Algorithm(Protocol):
    """The six names that an algorithm's module defines."""

    DATA: OnPolicy | OffPolicy
    """What it learns from."""
    Config: Any
    """Its settings, frozen; real-valued ones are leaves of the state."""
    State: Any
    """Everything that learning changes, and the settings."""

    def init(
        self, key: jax.Array, spec: EnvSpec, config: Any = ..., networks: Any = ...
    ) -> Any:
        """A new state for environments like `spec`."""

    def act(self, state: Any, obs: jax.Array, key: Any = ...) -> jax.Array:
        """Greedy actions without a key, exploring ones with it."""

    def update(
        self, state: Any, batch: Transition, pmean: Pmean = ...
    ) -> tuple[Any, Metrics]:
        """One learning step."""
