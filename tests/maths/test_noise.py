"""Noise that depends on the key and the transition only."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxrl.maths import noise, prng
from jaxrl.types import Transition

normal = jax.jit(noise.normal, static_argnums=2)


def transitions(count: int) -> Transition:
    rng = np.random.default_rng(0)
    shapes = [(count, 3), (count, 2), (count,), (count, 3)]
    rows = [jnp.asarray(rng.normal(size=shape), float) for shape in shapes]
    return Transition(*rows, jnp.zeros(count, bool), jnp.zeros(count, bool))


def take(batch: Transition, rows: jax.Array) -> Transition:
    return jax.tree.map(lambda x: x[rows], batch)


def test_draws_are_standard_normal(key):
    draws = normal(key, transitions(20_000), 4)
    assert draws.shape == (20_000, 4)
    for column in np.asarray(draws, np.float64).T:
        # The mean of 20 000 is off by 1/141 or so, the variance by √2/141.
        np.testing.assert_allclose(column.mean(), 0, atol=4 / 141)
        np.testing.assert_allclose(column.var(), 1, atol=4 * 2**0.5 / 141)
        assert stats.kstest(column, "norm").pvalue > 1e-3


def test_draws_of_a_faster_generator_are_the_same(key):
    batch = transitions(20)
    same = normal(prng.unrolled(key), batch, 4)
    np.testing.assert_array_equal(same, normal(key, batch, 4))


def test_columns_are_uncorrelated(key):
    draws = normal(key, transitions(20_000), 4)
    correlation = np.corrcoef(draws.T)
    np.testing.assert_allclose(correlation, np.eye(4), atol=4 / 141)


def test_draws_of_similar_transitions_are_uncorrelated(key):
    # Two batches that differ by the last bit of every reward.
    batch = transitions(20_000)
    near = batch._replace(reward=jnp.nextafter(batch.reward, jnp.inf))
    pair = [normal(key, each, 1)[:, 0] for each in (batch, near)]
    np.testing.assert_allclose(np.corrcoef(pair)[0, 1], 0, atol=4 / 141)


def test_shuffling_a_batch_shuffles_its_draws(key):
    batch = transitions(64)
    order = jax.random.permutation(key, 64)
    shuffled = normal(key, take(batch, order), 2)
    np.testing.assert_array_equal(shuffled, normal(key, batch, 2)[order])


@pytest.mark.parametrize("cut", [1, 32, 50])
def test_splitting_a_batch_does_not_change_its_draws(cut, key):
    batch = transitions(64)
    parts = [take(batch, slice(0, cut)), take(batch, slice(cut, 64))]
    drawn = jnp.concatenate([normal(key, part, 2) for part in parts])
    np.testing.assert_array_equal(drawn, normal(key, batch, 2))


def test_different_transitions_have_different_draws(key):
    draws = normal(key, transitions(1000), 1)
    assert len(np.unique(draws)) == 1000


def test_equal_transitions_have_equal_draws(key):
    twice = take(transitions(1), jnp.zeros(2, int))
    first, second = normal(key, twice, 3)
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first)) == 3


def test_another_key_gives_other_draws(key):
    batch = transitions(1000)
    other = normal(jax.random.key(1), batch, 1)[:, 0]
    draws = normal(key, batch, 1)[:, 0]
    assert (draws != other).all()
    assert abs(np.corrcoef(draws, other)[0, 1]) < 0.13


@pytest.mark.parametrize("field", ["obs", "action", "reward", "next_obs"])
def test_one_bit_of_any_field_changes_the_fingerprint(field, key):
    one = transitions(1)
    value = np.asarray(getattr(one, field))
    words = value.view(np.uint32).reshape(-1)
    bits = [*range(23), 31]  # the fraction and the sign: always a finite number
    flips = [(word, bit) for word in range(len(words)) for bit in bits]
    rows = np.tile(words, (len(flips), 1))
    for row, (word, bit) in zip(rows, flips, strict=True):
        row[word] ^= np.uint32(1 << bit)
    many = take(one, jnp.zeros(len(flips), int))
    changed = rows.view(np.float32).reshape(-1, *value.shape[1:])
    many = many._replace(**{field: jnp.asarray(changed)})
    assert (noise.fingerprint(many) != noise.fingerprint(one)).all()


def test_fingerprint_depends_on_the_order_of_the_numbers():
    def one(obs, action, reward, next_obs):
        rows = [jnp.array([x]) for x in (obs, action, reward, next_obs)]
        return Transition(*rows, jnp.zeros(1, bool), jnp.zeros(1, bool))

    moves = [
        one([0.3, 0.7], [0.2], 0.9, [0.4, 0.6]),
        one([0.7, 0.3], [0.2], 0.9, [0.4, 0.6]),
        one([0.4, 0.6], [0.2], 0.9, [0.3, 0.7]),
        one([0.3, 0.7], [0.9], 0.2, [0.4, 0.6]),
    ]
    assert len({int(noise.fingerprint(move)[0]) for move in moves}) == 4


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_transitions_of_small_integers_have_different_fingerprints(low):
    # Of 0, 1 and −1 only the upper nine bits differ, as on a board or in a one-hot.
    bits = (np.arange(4096)[:, None] >> np.arange(12)[None]) & 1  # [4096, 12]
    obs = jnp.where(jnp.asarray(bits, bool), 1.0, low)
    zeros = jnp.zeros(4096)
    batch = Transition(obs, zeros[:, None], zeros, jnp.zeros((4096, 12)), zeros, zeros)
    assert len(np.unique(noise.fingerprint(batch))) == 4096


def test_draws_are_float64_with_x64_enabled(key):
    with jax.enable_x64(True):
        batch = transitions(2000)
        assert batch.obs.dtype == jnp.float64
        draws = normal(key, batch, 2)
        assert draws.dtype == jnp.float64
        np.testing.assert_allclose(draws.mean(axis=0), 0, atol=4 / 44)
        np.testing.assert_allclose(draws.var(axis=0), 1, atol=4 * 2**0.5 / 44)
        np.testing.assert_array_equal(
            normal(key, take(batch, slice(0, 1000)), 2), draws[:1000]
        )
        # The last bit of a double counts as well.
        near = batch._replace(reward=jnp.nextafter(batch.reward, jnp.inf))
        assert (noise.fingerprint(near) != noise.fingerprint(batch)).all()
