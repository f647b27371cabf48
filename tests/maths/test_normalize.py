"""Running moments against those of all samples together."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import SPEC, fake_batch

from jaxrl import algos
from jaxrl.maths import normalize
from jaxrl.maths.normalize import Moments
from jaxrl.types import identity

pmean = partial(jax.lax.pmean, axis_name="learner")
shapes = pytest.mark.parametrize("shape", [(), (3,)], ids=["scalar", "vector"])


def samples(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Four batches [8, 2, *shape], each with another mean and spread."""
    x = jax.random.normal(key, (4, 8, 2, *shape))
    grow = jnp.arange(1.0, 5.0).reshape(4, 1, 1, *(1 for _ in shape))
    return x * jnp.broadcast_to(grow, x.shape) + jnp.broadcast_to(grow**2, x.shape)


def merged(batches: jax.Array) -> Moments:
    moments = Moments.zero(*batches.shape[3:])
    for batch in batches:
        moments = normalize.merge(moments, batch, identity)
    return moments


@shapes
def test_merged_moments_equal_those_of_all_samples(shape, key):
    batches = samples(key, shape)
    got, pool = merged(batches), np.asarray(batches, np.float64)
    assert got.batches == 4
    assert got.mean.shape == got.var.shape == shape
    np.testing.assert_allclose(got.mean, pool.mean((0, 1, 2)), rtol=1e-5)
    np.testing.assert_allclose(got.var, pool.var((0, 1, 2)), rtol=1e-4)


def test_two_batches_by_hand():
    moments = Moments.zero()
    for batch in ([1.0, 3.0], [5.0, 9.0]):
        moments = normalize.merge(moments, jnp.array(batch), identity)
    # of 1 3 5 9: mean 18/4 = 4.5, variance (12.25 + 2.25 + 0.25 + 20.25)/4 = 8.75
    np.testing.assert_allclose(moments.mean, 4.5)
    np.testing.assert_allclose(moments.var, 8.75, rtol=1e-6)


def test_batches_of_different_sizes_weigh_the_same():
    moments = Moments.zero()
    for batch in ([0.0, 0.0, 0.0, 0.0], [10.0]):
        moments = normalize.merge(moments, jnp.array(batch), identity)
    np.testing.assert_allclose(moments.mean, 5.0)  # ½·0 + ½·10
    np.testing.assert_allclose(moments.var, 25.0)


@shapes
def test_two_learners_merge_to_the_moments_of_one(shape, key):
    batches = samples(key, shape)
    old, batch = merged(batches[:3]), batches[3]  # [8, 2, *shape]
    halves = jnp.stack([batch[:, :1], batch[:, 1:]])
    merge = jax.vmap(
        lambda half: normalize.merge(old, half, pmean), axis_name="learner"
    )
    for learner in range(2):
        got = jax.tree.map(lambda x: x[learner], merge(halves))  # noqa: B023
        for x, y in zip(got, normalize.merge(old, batch, identity), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5)


@shapes
def test_moments_keep_their_dtypes_and_strong_types(shape, key):
    before = Moments.zero(*shape)
    after = normalize.merge(before, samples(key, shape)[0], identity)
    for x, y in zip(before, after, strict=True):
        assert (x.dtype, x.shape, x.weak_type) == (y.dtype, y.shape, y.weak_type)
        assert not y.weak_type


@shapes
def test_initial_moments_leave_samples_unchanged(shape, key):
    x = samples(key, shape)[0]
    got = normalize.standardize(Moments.zero(*shape), x)
    np.testing.assert_allclose(got, x, rtol=1e-6)


@shapes
def test_standardized_samples_have_mean_zero_and_deviation_one(shape, key):
    batches = samples(key, shape)
    got = normalize.standardize(merged(batches), batches)
    np.testing.assert_allclose(got.mean((0, 1, 2)), np.zeros(shape), atol=1e-5)
    np.testing.assert_allclose(got.std((0, 1, 2)), np.ones(shape), rtol=1e-4)


@shapes
def test_restore_undoes_standardize(shape, key):
    batches = samples(key, shape)
    moments, x = merged(batches), batches[0]
    there = normalize.standardize(moments, x)
    assert np.abs(there - x).max() > 0.1
    np.testing.assert_allclose(normalize.restore(moments, there), x, rtol=1e-4)
    back = normalize.restore(moments, x)
    np.testing.assert_allclose(normalize.standardize(moments, back), x, rtol=1e-4)


def test_observations_are_clipped_at_ten_standard_deviations():
    moments = Moments(jnp.array(1), jnp.array([1.0, 0.0]), jnp.array([4.0, 1.0]))
    obs = jnp.array([[5.0, -3.0], [22.0, -11.0], [1e6, -1e6]])
    # (5 − 1)/2 = 2 and −3;  (22 − 1)/2 = 10.5 and −11 are beyond
    got = normalize.normalize_obs(moments, obs)
    np.testing.assert_allclose(got, [[2, -3], [10, -10], [10, -10]], rtol=1e-6)


def test_a_constant_observation_becomes_zero_and_not_nan():
    moments = normalize.merge(Moments.zero(2), jnp.full((4, 2), 7.0), identity)
    got = normalize.normalize_obs(moments, jnp.full((4, 2), 7.0))
    np.testing.assert_array_equal(got, np.zeros((4, 2)))


def test_normalize_batch_changes_obs_and_next_obs_only(key):
    batch = fake_batch(algos.get("sac"), key)
    moments = normalize.merge(Moments.zero(SPEC.obs_size), batch.obs, identity)
    got = normalize.normalize_batch(moments, batch)
    for name in ("obs", "next_obs"):
        want = normalize.normalize_obs(moments, getattr(batch, name))
        np.testing.assert_array_equal(getattr(got, name), want)
        assert np.abs(getattr(got, name) - getattr(batch, name)).max() > 0.01
    for name in ("action", "reward", "terminated", "truncated"):
        assert getattr(got, name) is getattr(batch, name)


def test_none_in_place_of_moments_changes_nothing(key):
    batch = fake_batch(algos.get("sac"), key)
    assert normalize.merge(None, batch.obs, identity) is None
    for function in (
        normalize.standardize,
        normalize.restore,
        normalize.normalize_obs,
    ):
        assert function(None, batch.obs) is batch.obs
    for x, y in zip(normalize.normalize_batch(None, batch), batch, strict=True):
        assert x is y
