"""Environments with known solutions, solved by every algorithm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import algorithms, is_on_policy

from jaxrl.envs.jax import PROBES
from jaxrl.maths import critics, normalize
from jaxrl.training import fused
from jaxrl.types import Discrete, OffPolicy, OnPolicy

GAMMA = 0.9
# By observation: V or Q of the greedy action, and that action.
VALUES = {
    "constant": {0: 1},
    "observed": {-1: -1, 1: 1},
    "delayed": {0: GAMMA, 1: 1},
    "chosen": {},
    "both": {},
}
ACTIONS = {"chosen": {0: 0.5}, "both": {-1: -0.5, 1: 0.5}}
CHOICES = {"chosen": {0: 1}, "both": {-1: 0, 1: 1}}

probes = pytest.mark.parametrize("probe", PROBES)


def settings(algo):
    """High learning rates and small networks, because the problems are tiny."""
    names = algo.Config.__dataclass_fields__
    config = {"hidden": (32,), "gamma": GAMMA, "tau": 0.05, "minibatches": 4}
    config |= dict.fromkeys(("pi_lr", "vf_lr", "q_lr", "lr"), 0.003)
    if is_on_policy(algo):
        if "minibatches" not in names:  # VPG: one policy step per update
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
    norm_obs = normalize.normalize_obs(state.obs_norm, obs)
    if is_on_policy(algo):
        output = state.networks.critic.apply(state.critic.params, norm_obs)
        return normalize.restore(state.return_norm, output)
    action, module = algo.act(state, obs), state.networks.critic
    return critics.q(state.critic.params, module, norm_obs, action).min(axis=0)


@algorithms
@probes
def test_every_algorithm_solves_the_probe(algo, probe):
    state, history = solve(algo, PROBES[probe])
    for obs, expected in VALUES[probe].items():
        got = value(algo, state, jnp.full((1, 1), float(obs)))
        np.testing.assert_allclose(got, expected, atol=0.1)
    for obs, expected in ACTIONS.get(probe, {}).items():
        got = algo.act(state, jnp.full((1, 1), float(obs)))
        np.testing.assert_allclose(got, expected, atol=0.15)
    assert history["EpLen"][-1] == PROBES[probe].length


@algorithms
@pytest.mark.parametrize("probe", CHOICES)
def test_on_policy_algorithms_solve_the_discrete_probe(algo, probe):
    if not is_on_policy(algo):
        pytest.skip("supports Box actions only")
    state, history = solve(algo, PROBES[probe]._replace(action=Discrete(2)))
    for obs, expected in CHOICES[probe].items():
        assert algo.act(state, jnp.full((1,), float(obs))) == expected
    assert history["EpRet"][-1] > -0.1  # of at most 0; guessing gets -0.5
