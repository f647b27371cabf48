"""Properties of every algorithm; a new one is covered by being listed."""

import dataclasses
from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import SPEC, algorithms, fake_batch, is_on_policy, leaves, small_config

from jaxrl.types import Box, Discrete, EnvSpec

BINARY = EnvSpec(obs_size=3, action=Discrete(2))


def signature(tree):
    """Structure, shapes, dtypes and weak types."""
    described = [
        (x.shape, x.dtype, getattr(x, "weak_type", False))
        for x in jax.tree.leaves(tree)
    ]
    return jax.tree.structure(tree), described


def same_bits(one, other):
    return all(
        np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True)
    )


def assert_close(one, other, tolerance):
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def start(algo, key, **changes):
    return algo.init(key, SPEC, small_config(algo, **changes))


@algorithms
def test_update_keeps_shapes_dtypes_and_weak_types(algo, key):
    state = start(algo, key)
    after, _ = jax.jit(algo.update)(state, fake_batch(algo, key))
    assert signature(after) == signature(state)
    assert not any(weak for _, _, weak in signature(state)[1])


@algorithms
def test_update_follows_the_default_precision(algo):
    with jax.enable_x64(True):
        key = jax.random.key(0)
        state = start(algo, key)
        after, metrics = jax.jit(algo.update)(state, fake_batch(algo, key))
        assert signature(after) == signature(state)
        real = [
            x for x in leaves((after, metrics)) if jnp.issubdtype(x.dtype, jnp.floating)
        ]
        assert {x.dtype for x in real} == {np.dtype("float64")}


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
def test_update_is_pure_bit_for_bit(algo, key):
    update, batch = jax.jit(algo.update), fake_batch(algo, key)
    state = start(algo, key)
    before = [np.array(x) for x in leaves(state)]
    once, again = update(state, batch), update(state, batch)
    assert same_bits(once, again)
    assert all(map(np.array_equal, before, leaves(state)))


@algorithms
def test_update_runs_without_jit_too(algo, key):
    state, batch = start(algo, key), fake_batch(algo, key)
    assert_close(algo.update(state, batch), jax.jit(algo.update)(state, batch), 1e-4)


@algorithms
def test_update_compiles_once_for_many_states_and_real_settings(algo, key):
    chex.clear_trace_counter()
    update = jax.jit(chex.assert_max_traces(lambda *args: algo.update(*args), n=1))
    for seed, gamma in enumerate([0.99, 0.9, 0.5]):
        state = start(algo, jax.random.key(seed), gamma=gamma)
        for _ in range(2):
            state, _ = update(state, fake_batch(algo, key))
    assert update._cache_size() == 1


@algorithms
def test_update_accepts_a_donated_state(algo, key):
    batch = fake_batch(algo, key)
    expected, _ = jax.jit(algo.update)(start(algo, key), batch)
    expected, _ = jax.jit(algo.update)(expected, batch)
    update = jax.jit(algo.update, donate_argnums=0)
    state = start(algo, key)
    first = jax.tree.leaves(state.actor.params)[0]
    for _ in range(2):
        state, _ = update(state, batch)
    assert first.is_deleted()
    assert same_bits(state, expected)
    start(algo, key)  # the key and the default settings were not donated


@algorithms
def test_update_maps_over_seeds(algo, key):
    keys = jax.random.split(key, 3)
    batches = jax.vmap(partial(fake_batch, algo))(keys)
    states = jax.vmap(partial(start, algo))(keys)
    together, _ = jax.jit(jax.vmap(algo.update))(states, batches)
    for i in range(3):
        alone, _ = jax.jit(algo.update)(
            start(algo, keys[i]), jax.tree.map(lambda x, i=i: x[i], batches)
        )
        assert_close(jax.tree.map(lambda x, i=i: x[i], together), alone, 1e-4)


@algorithms
def test_update_maps_over_settings(algo, key):
    gammas, batch = jnp.array([0.0, 0.5, 0.99]), fake_batch(algo, key)

    def one(gamma):
        return algo.update(start(algo, key, gamma=gamma), batch)[0].critic.params

    together = jax.jit(jax.vmap(one))(gammas)
    for i, gamma in enumerate(gammas):
        assert_close(
            jax.tree.map(lambda x, i=i: x[i], together), jax.jit(one)(gamma), 1e-4
        )
    first, second = (jax.tree.map(lambda x, i=i: x[i], together) for i in (0, 2))
    assert not same_bits(first, second)


@algorithms
def test_update_runs_in_a_scan(algo, key):
    batches = jax.vmap(partial(fake_batch, algo))(jax.random.split(key, 3))
    scanned, metrics = jax.jit(partial(jax.lax.scan, algo.update))(
        start(algo, key), batches
    )
    state = start(algo, key)
    for i in range(3):
        state, last = jax.jit(algo.update)(
            state, jax.tree.map(lambda x, i=i: x[i], batches)
        )
    assert_close(scanned, state, 1e-4)
    assert_close(jax.tree.map(lambda x: x[-1], metrics), last, 1e-3)


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
def test_two_devices_with_half_a_batch_each_agree_with_one_device(algo):
    with jax.enable_x64(True):
        key = jax.random.key(0)
        batches = [fake_batch(algo, k) for k in jax.random.split(key, 4)]
        alone, pair = start(algo, key), start(algo, key)
        pmean = partial(jax.lax.pmean, axis_name="devices")
        update = jax.pmap(
            lambda state, batch: algo.update(state, batch, pmean), axis_name="devices"
        )
        pair = jax.tree.map(lambda x: jnp.stack([x, x]), pair)
        for batch in batches:
            alone, _ = jax.jit(algo.update)(alone, batch)
            pair, _ = update(pair, halves(algo, batch))
        for i in range(2):
            assert_close(replica(pair, i), jax.device_get(leaves(alone)), 1e-9)
        assert same_bits(replica(pair, 0), replica(pair, 1))


def halves(algo, batch):
    """[2, ...]: the environments of a rollout, or the transitions, in two halves."""
    axis = 1 if is_on_policy(algo) else 0
    return jax.tree.map(lambda x: jnp.stack(jnp.split(x, 2, axis)), batch)


def replica(state, i):
    return [np.asarray(x)[i] for x in leaves(state)]


@algorithms
def test_act_is_greedy_without_a_key_and_explores_with_one(algo, key):
    state, obs = start(algo, key), fake_batch(algo, key).obs
    greedy = algo.act(state, obs)
    assert greedy.shape == (*obs.shape[:-1], SPEC.action.size)
    assert np.array_equal(greedy, algo.act(state, obs))
    one, other = (algo.act(state, obs, jax.random.key(seed)) for seed in (1, 2))
    assert not np.array_equal(one, greedy)
    assert not np.array_equal(one, other)
    assert np.array_equal(one, algo.act(state, obs, jax.random.key(1)))


@algorithms
def test_act_takes_one_observation_or_many(algo, key):
    state, obs = start(algo, key), jnp.ones((5, 3))
    many = algo.act(state, obs)
    np.testing.assert_allclose(many[0], algo.act(state, obs[0]), rtol=1e-5)


@algorithms
def test_actions_of_algorithms_for_bounded_spaces_stay_within_the_bounds(algo, key):
    if is_on_policy(algo):
        pytest.skip("a Gaussian policy is clipped by the environment")
    state = start(algo, key)
    action = algo.act(state, 100 * jax.random.normal(key, (200, 3)), key)
    assert np.abs(action).max() <= 1


@algorithms
def test_discrete_actions_are_supported_or_rejected(algo, key):
    if not is_on_policy(algo):
        with pytest.raises(ValueError, match=r"discrete.*ppo"):
            algo.init(key, BINARY)
        return
    state = algo.init(key, BINARY, small_config(algo))
    batch = fake_batch(algo, key, BINARY)
    after, _ = jax.jit(algo.update)(state, batch)
    assert signature(after) == signature(state)
    assert not same_bits(after.actor.params, state.actor.params)
    action = algo.act(after, batch.obs, key)
    assert jnp.issubdtype(action.dtype, jnp.integer)
    assert set(np.unique(action)) == {0, 1}


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
def test_init_depends_on_the_key_only(algo):
    one, same, other = (start(algo, jax.random.key(seed)) for seed in (0, 0, 1))
    assert same_bits(one, same)
    assert not same_bits(one.actor.params, other.actor.params)


@algorithms
def test_init_runs_under_jit(algo, key):
    jitted = jax.jit(algo.init, static_argnums=1)(key, SPEC, small_config(algo))
    assert_close(jitted, start(algo, key), 1e-6)


@algorithms
def test_a_truncated_step_is_bootstrapped_and_a_terminated_one_is_not(algo, key):
    state = start(algo, key)
    batch = fake_batch(algo, key)
    never = jnp.zeros_like(batch.terminated)

    def critic_after(scale, **flags):
        changed = batch._replace(next_obs=scale * batch.next_obs, **flags)
        return jax.jit(algo.update)(state, changed)[0].critic.params

    ended = {"terminated": ~never, "truncated": never}
    limited = {"terminated": never, "truncated": ~never}
    if is_on_policy(algo):  # off-policy noise also depends on `next_obs`
        assert same_bits(critic_after(1, **ended), critic_after(2, **ended))
    assert not same_bits(critic_after(1, **limited), critic_after(2, **limited))
    assert not same_bits(critic_after(1, **ended), critic_after(1, **limited))


@algorithms
def test_scaled_actions_reach_asymmetric_bounds(algo, key):
    space = Box((-3.0, 0.0), (1.0, 10.0))
    state = algo.init(key, EnvSpec(3, space), small_config(algo))
    action = algo.act(state, jax.random.normal(key, (500, 3)), key)
    scaled = space.scale(10 * action)  # far beyond the bounds
    np.testing.assert_allclose(scaled.min(0), space.low)
    np.testing.assert_allclose(scaled.max(0), space.high)
