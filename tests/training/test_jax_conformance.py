"""Time limits are bootstrapped through the whole program of a JAX environment.

True ends, which are not, are in tests/algos/test_probes.py: `constant` and `delayed`.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import algorithms, is_on_policy

from jaxrl.contracts import probes
from jaxrl.envs.jax import Step
from jaxrl.spaces import Box, EnvSpec
from jaxrl.training import fused


class Steady:
    """Reward 1 at every step: only a time limit ends an episode."""

    spec = EnvSpec(1, Box((-1.0,), (1.0,)))

    def reset(self, key):
        return jnp.zeros(()), jnp.zeros(1)

    def step(self, state, action, key):
        never = jnp.array(False)
        return Step(state, jnp.zeros(1), jnp.ones(()), never, never)


@pytest.mark.parametrize(
    ("num_envs", "limit"),
    [(1, 4), (2, 3)],
    ids=["one-env-ending-with-the-epoch", "two-envs-ending-within"],
)
@algorithms
def test_a_time_limit_does_not_lower_the_value(algo, num_envs, limit):
    config, data = probes.settings(algo)
    config = dataclasses.replace(config, gamma=0.5)
    changes = {"num_envs": num_envs, "max_ep_len": limit}
    if is_on_policy(algo):
        changes |= {"steps_per_epoch": 64, "epochs": 150}
    data = dataclasses.replace(data, **changes)
    train = jax.jit(lambda key: fused.train(key, algo, Steady(), config, data))
    state, history = train(jax.random.key(0))
    # V = 1 + 0.5 + 0.25 + ... = 2; without bootstrapping at most 1.75
    value = probes.value(algo, state, jnp.zeros((1, 1)))
    np.testing.assert_allclose(value, 2.0, atol=0.1)
    assert history["EpLen"][-1] == history["EpRet"][-1] == limit
