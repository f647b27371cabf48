"""Environments as pure functions, to be jitted and vmapped with what learns in them.

The five probes (after Andy Jones, "Debugging RL, Without the Agonizing Pain") have
answers known beforehand, and each isolates one fault:

    constant   reward 1                                 the critic's loss
    seen       the reward is the observation            what the critic sees
    later      reward 1, but only for a second step     discounting and bootstrapping
    chosen     the reward prefers one action            the policy's gradient
    both       the preferred action is observed         all together
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxrl.spaces import Box, Discrete, EnvSpec


class Step(NamedTuple):
    """What follows an action. `obs` is never that of the next episode."""

    state: Any
    obs: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array


class PureEnv(Protocol):
    """An environment whose state is an argument; actions as in `EnvSpec.action`."""

    @property
    def spec(self) -> EnvSpec: ...

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """A fresh state and its observation [obs_size]."""

    def step(self, state: Any, action: jax.Array, key: jax.Array) -> Step: ...


class Probe(NamedTuple):
    """An episode of `length` steps; `obs` counts them from 0, or from a random sign."""

    reward: Callable[[jax.Array, jax.Array], jax.Array]
    signed: bool = False
    length: int = 1
    action: Box | Discrete = Box((-1.0,), (1.0,))

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(1, self.action)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        obs = jax.random.rademacher(key, (1,), float) if self.signed else jnp.zeros(1)
        return (jnp.ones((), int), obs), obs

    def step(self, state: Any, action: jax.Array, key: jax.Array) -> Step:
        step, obs = state
        over = step >= self.length
        reward = self.reward(obs, action)
        return Step((step + 1, obs + 1), obs + 1, reward, over, jnp.array(False))


def _preference(action: jax.Array, wish: jax.Array | float) -> jax.Array:
    """0 for the action that `wish` in {-1, 1} asks for, less for any other.

    A real action should be wish/2; a discrete one 0 for -1 and 1 for 1.
    """
    if jnp.issubdtype(action.dtype, jnp.integer):
        return -jnp.abs(action - (wish + 1) / 2)
    return -((action[0] - wish / 2) ** 2)


PROBES = {
    "constant": Probe(lambda obs, action: jnp.ones(())),
    "seen": Probe(lambda obs, action: obs[0], signed=True),
    "later": Probe(lambda obs, action: obs[0], length=2),
    "chosen": Probe(lambda obs, action: _preference(action, 1.0)),
    "both": Probe(lambda obs, action: _preference(action, obs[0]), signed=True),
}
