"""The words all rooms share: transitions, spaces, what an algorithm is."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import jax

from jaxrl import settings
from jaxrl.settings import Count, Size
from jaxrl.spaces import Box as Box
from jaxrl.spaces import Discrete as Discrete
from jaxrl.spaces import EnvSpec as EnvSpec

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


@settings.pytree
class OnPolicy:
    """How fresh rollouts [T, N] are gathered."""

    steps_per_epoch: Size = 2048
    """Steps in all environments of all processes between two updates."""
    num_envs: Size = 1
    """Environments that each process steps side by side."""
    epochs: Size = 500
    """Updates in a run."""
    max_ep_len: Size = 1000
    """Steps after which an episode is truncated, if the environment does not before."""
    save_freq: Size = 10
    """Epochs between two saves of the model."""
    num_test_episodes: Count = 0
    """Episodes of the greedy policy after every epoch."""


@settings.pytree
class OffPolicy:
    """How transitions [B] are gathered and replayed."""

    steps_per_epoch: Size = 5000
    """Steps in all environments of all processes between two rows of the log."""
    num_envs: Size = 1
    """Environments that each process steps side by side."""
    epochs: Size = 200
    """Rows of the log in a run."""
    max_ep_len: Size = 1000
    """Steps after which an episode is truncated, if the environment does not before."""
    save_freq: Size = 1
    """Epochs between two saves of the model."""
    replay_size: Size = 1_000_000
    """Transitions kept, over all processes; the oldest give way."""
    batch_size: Size = 256
    """Transitions in one update, over all processes."""
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
