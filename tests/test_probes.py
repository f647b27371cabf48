"""Environments with known answers, solved by every algorithm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import algorithms, is_on_policy

from jaxrl.envs.pure import PROBES
from jaxrl.maths import critics, normalize
from jaxrl.training import fused
from jaxrl.types import Discrete, OffPolicy, OnPolicy

GAMMA = 0.9
# What V or Q of the greedy action must be, and that action, at each observation.
VALUES = {
    "constant": {0: 1},
    "seen": {-1: -1, 1: 1},
    "later": {0: GAMMA, 1: 1},
    "chosen": {},
    "both": {},
}
ACTIONS = {"chosen": {0: 0.5}, "both": {-1: -0.5, 1: 0.5}}
CHOICES = {"chosen": {0: 1}, "both": {-1: 0, 1: 1}}

probes = pytest.mark.parametrize("probe", PROBES)


def settings(algo):
    """Large steps and small networks: the problems are tiny."""
    names = algo.Config.__dataclass_fields__
    config = {"hidden": (32,), "gamma": GAMMA, "tau": 0.05, "minibatches": 4}
    config |= dict.fromkeys(("pi_lr", "vf_lr", "q_lr", "lr"), 0.003)
    if is_on_policy(algo):
        if "minibatches" not in names:  # one step an update may be a long one
            config |= {"pi_lr": 1e-2}
        data = OnPolicy(steps_per_epoch=256, num_envs=8, epochs=100)
    else:
        data = OffPolicy(
            steps_per_epoch=500,
            epochs=6,
            num_envs=2,
            replay_size=5000,
            batch_size=64,
            start_steps=200,
            update_after=100,
        )
    known = {name: value for name, value in config.items() if name in names}
    return algo.Config(**known), data


def solve(algo, env):
    config, data = settings(algo)
    train = jax.jit(lambda key: fused.train(key, algo, env, config, data))
    return train(jax.random.key(0))


def value(algo, state, obs):
    seen = normalize.observation(state.obs_norm, obs)
    if is_on_policy(algo):
        output = state.networks.critic.apply(state.critic.params, seen)
        return normalize.restore(state.return_norm, output)
    action, module = algo.act(state, obs), state.networks.critic
    return critics.q(state.critic.params, module, seen, action).min(axis=0)


@algorithms
@probes
def test_a_probe_is_solved(algo, probe):
    state, history = solve(algo, PROBES[probe])
    for place, expected in VALUES[probe].items():
        got = value(algo, state, jnp.full((1, 1), float(place)))
        np.testing.assert_allclose(got, expected, atol=0.1)
    for place, expected in ACTIONS.get(probe, {}).items():
        got = algo.act(state, jnp.full((1, 1), float(place)))
        np.testing.assert_allclose(got, expected, atol=0.15)
    assert history["EpLen"][-1] == PROBES[probe].length


@algorithms
@pytest.mark.parametrize("probe", CHOICES)
def test_a_discrete_probe_is_solved(algo, probe):
    if not is_on_policy(algo):
        pytest.skip("acts in a Box only")
    state, history = solve(algo, PROBES[probe]._replace(action=Discrete(2)))
    for place, expected in CHOICES[probe].items():
        assert algo.act(state, jnp.full((1,), float(place))) == expected
    assert history["EpRet"][-1] > -0.1  # of at most 0; guessing gets -0.5
