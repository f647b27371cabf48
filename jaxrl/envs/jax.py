"""JAX environments: pure functions, jitted and vmapped together with the algorithm.

The five probes (after Andy Jones, "Debugging RL, Without the Agonizing Pain") have
known solutions, and each tests one part of an algorithm:

    constant   reward 1                                 the critic's loss
    observed   the reward is the observation            the critic's inputs
    delayed    reward 1, but only for a second step     discounting and bootstrapping
    chosen     the reward prefers one action            the policy's gradient
    both       the observation says which action        all of these
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxrl.spaces import Box, Discrete, EnvSpec


class Step(NamedTuple):
    """The result of an action; `obs` is never the observation after a reset."""

    state: Any
    obs: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array


class JaxEnv(Protocol):
    """An environment of pure functions; actions are scaled to `spec.action`."""

    @property
    def spec(self) -> EnvSpec:
        """Sizes of observations and actions."""

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """An initial state and its observation [obs_size]."""

    def step(self, state: Any, action: jax.Array, key: jax.Array) -> Step:
        """What follows an action."""


class Probe(NamedTuple):
    """Episodes of `length` steps; `obs` counts up from 0, or from ±1 if `signed`."""

    reward: Callable[[jax.Array, jax.Array], jax.Array]
    signed: bool = False
    length: int = 1
    action: Box | Discrete = Box((-1.0,), (1.0,))

    @property
    def spec(self) -> EnvSpec:
        """One observation, and the probe's action."""
        return EnvSpec(1, self.action)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """The first step of an episode."""
        obs = jax.random.rademacher(key, (1,), float) if self.signed else jnp.zeros(1)
        return (jnp.ones((), int), obs), obs

    def step(self, state: Any, action: jax.Array, key: jax.Array) -> Step:
        """The reward of the probe; the episode ends after `length` steps."""
        step, obs = state
        over = step >= self.length
        reward = self.reward(obs, action)
        return Step((step + 1, obs + 1), obs + 1, reward, over, jnp.array(False))


def _preference(action: jax.Array, sign: jax.Array | float) -> jax.Array:
    """Reward 0 for the best action for `sign` in {-1, 1}, less for any other.

    The best real action is sign/2; the best discrete one 0 for -1 and 1 for 1.
    """
    if jnp.issubdtype(action.dtype, jnp.integer):
        return -jnp.abs(action - (sign + 1) / 2)
    return -((action[0] - sign / 2) ** 2)


PROBES = {
    "constant": Probe(lambda obs, action: jnp.ones(())),
    "observed": Probe(lambda obs, action: obs[0], signed=True),
    "delayed": Probe(lambda obs, action: obs[0], length=2),
    "chosen": Probe(lambda obs, action: _preference(action, 1.0)),
    "both": Probe(lambda obs, action: _preference(action, obs[0]), signed=True),
}
