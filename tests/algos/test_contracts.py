"""Properties of every algorithm; a new one is covered by being listed.

Those that a user's algorithm must have too are in `jaxrl.contracts`.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import SPEC, algorithms, fake_batch, is_on_policy, leaves, small_config

from jaxrl.contracts import CONTRACTS
from jaxrl.contracts.samples import BINARY, assert_close, same_bits, start
from jaxrl.types import Box, EnvSpec


@algorithms
@pytest.mark.parametrize("name", CONTRACTS)
def test_the_contract_holds(algo, name):
    CONTRACTS[name].check(algo)


@algorithms
def test_update_changes_both_networks_and_stays_finite(algo, key):
    state = start(algo, key)
    with jax.debug_nans(True):
        after, metrics = jax.jit(algo.update)(state, fake_batch(algo, key))
    learned = dataclasses.replace(after, config=None)
    assert all(np.isfinite(x).all() for x in leaves((learned, metrics)))
    assert not same_bits(after.actor.params, state.actor.params)
    assert not same_bits(after.critic.params, state.critic.params)


@algorithms
def test_update_is_differentiable_in_its_settings(algo):
    def size_after(gamma):
        after, _ = algo.update(start(algo, jax.random.key(0), gamma=gamma), batch)
        return sum(jnp.sum(x**2) for x in jax.tree.leaves(after.critic.params))

    with jax.enable_x64(True):
        batch = fake_batch(algo, jax.random.key(0))
        slope, step = float(jax.jit(jax.grad(size_after))(0.9)), 1e-6
        high, low = (float(jax.jit(size_after)(0.9 + d)) for d in (step, -step))
    assert np.isfinite(slope)
    assert slope != 0
    np.testing.assert_allclose(slope, (high - low) / (2 * step), rtol=1e-3, atol=1e-6)


@algorithms
def test_discrete_actions_are_supported_or_rejected(algo, key):
    if not is_on_policy(algo):
        with pytest.raises(ValueError, match=r"discrete.*ppo"):
            algo.init(key, BINARY)
        return
    state = algo.init(key, BINARY, small_config(algo))
    after, _ = jax.jit(algo.update)(state, fake_batch(algo, key, BINARY))
    assert not same_bits(after.actor.params, state.actor.params)


@algorithms
def test_observation_normalisation_is_part_of_the_state(algo, key):
    state = start(algo, key, normalize_obs=True)
    batch = fake_batch(algo, key)
    batch = batch._replace(obs=5 + 3 * batch.obs)
    after, _ = jax.jit(algo.update)(state, batch)
    rows = np.asarray(batch.obs).reshape(-1, 3)
    np.testing.assert_allclose(after.obs_norm.mean, rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(after.obs_norm.var, rows.var(0), rtol=1e-4)
    shifted = dataclasses.replace(
        after, obs_norm=after.obs_norm._replace(mean=after.obs_norm.mean + 1)
    )
    assert_close(algo.act(shifted, batch.obs + 1), algo.act(after, batch.obs), 1e-4)


@algorithms
def test_observations_are_normalised_by_default_on_policy_only(algo, key):
    assert (algo.init(key, SPEC).obs_norm is not None) == is_on_policy(algo)


@algorithms
def test_scaled_actions_reach_asymmetric_bounds(algo, key):
    space = Box((-3.0, 0.0), (1.0, 10.0))
    state = algo.init(key, EnvSpec(3, space), small_config(algo))
    action = algo.act(state, 10 * jax.random.normal(key, (500, 3)), key)
    scaled = space.scale(10 * action)  # far beyond the bounds
    np.testing.assert_allclose(scaled.min(0), space.low)
    np.testing.assert_allclose(scaled.max(0), space.high)
