"""Minibatches and the ring, on transitions that carry their number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.maths import replay
from jaxrl.types import Transition


def numbered(steps: int, envs: int, first: int = 0) -> Transition:
    """[T, N]: step t of environment n is number first + t N + n, in every field."""
    number = jnp.arange(first, first + steps * envs, dtype=float).reshape(steps, envs)
    wide = jnp.stack([number, -number], axis=-1)  # [T, N, 2]
    return Transition(wide, wide, number, wide, number, number)


def slots(ring: replay.Ring) -> list[float]:
    return ring.rows.reward.tolist()


def ring_of(*rollouts: Transition, capacity: int) -> replay.Ring:
    one = jax.tree.map(lambda x: x[0, 0], numbered(1, 1))
    ring = replay.Ring.empty(one, capacity)
    for rollout in rollouts:
        ring = ring.insert(rollout)
    return ring


def assert_whole(batch: Transition) -> None:
    """Every row is one transition, not parts of several."""
    for wide in (batch.obs, batch.action, batch.next_obs):
        np.testing.assert_array_equal(wide[..., 0], batch.reward)
        np.testing.assert_array_equal(wide[..., 1], -batch.reward)
    np.testing.assert_array_equal(batch.terminated, batch.reward)


def test_flatten_goes_step_by_step():
    got = replay.flatten(numbered(3, 2))
    np.testing.assert_array_equal(got.reward, np.arange(6))
    assert got.obs.shape == (6, 2)
    assert_whole(got)


@pytest.mark.parametrize("count", [2, 3, 6])
def test_each_step_is_in_exactly_one_minibatch(count, key):
    got = replay.minibatches(numbered(6, 2), count, key)
    assert got.reward.shape == (count, 12 // count)
    assert got.obs.shape == (count, 12 // count, 2)
    np.testing.assert_array_equal(np.sort(got.reward, axis=None), np.arange(12))
    assert_whole(got)


def test_a_remainder_sits_out(key):
    got = replay.minibatches(numbered(7, 2), 3, key)
    # 7 steps make 3 minibatches of 2 and leave one; each step has 2 transitions
    assert got.reward.shape == (3, 4)
    assert len(np.unique(got.reward)) == 12


def test_the_remainder_is_another_one_each_time(key):
    rollout = numbered(3, 1)
    absent = {
        3.0 - float(replay.minibatches(rollout, 2, each).reward.sum())
        for each in jax.random.split(key, 30)
    }
    assert absent == {0.0, 1.0, 2.0}  # 0 + 1 + 2 = 3, less the two that are in


def test_all_environments_of_a_step_stay_together(key):
    got = replay.minibatches(numbered(6, 4), 3, key)
    steps = np.asarray(got.reward).reshape(3, 2, 4)  # [count, steps, N]
    first = steps[..., :1]
    np.testing.assert_array_equal(first % 4, np.zeros((3, 2, 1)))
    np.testing.assert_array_equal(steps - first, np.tile(np.arange(4), (3, 2, 1)))


def test_steps_are_shuffled_by_the_key(key):
    rollout = numbered(16, 1)
    got = replay.minibatches(rollout, 2, key).reward
    again = replay.minibatches(rollout, 2, key).reward
    other = replay.minibatches(rollout, 2, jax.random.key(1)).reward
    np.testing.assert_array_equal(got, again)
    assert (got != other).any()
    assert (got.reshape(-1) != jnp.arange(16)).any()


def test_one_minibatch_is_the_rollout_in_order(key):
    got = replay.minibatches(numbered(5, 2), 1, key)
    np.testing.assert_array_equal(got.reward, np.arange(10)[None])
    assert got.obs.shape == (1, 10, 2)


def test_more_minibatches_than_steps_are_refused(key):
    message = "cannot cut a rollout of 3 steps into 4 minibatches; .* at least 4 steps"
    with pytest.raises(ValueError, match=message):
        replay.minibatches(numbered(3, 8), 4, key)


def test_half_of_the_environments_make_half_of_each_minibatch(key):
    rollout = numbered(7, 4)
    left = jax.tree.map(lambda x: x[:, :2], rollout)
    right = jax.tree.map(lambda x: x[:, 2:], rollout)
    whole, *halves = (
        replay.minibatches(each, 3, key).reward.reshape(3, 2, -1)  # [count, steps, N]
        for each in (rollout, left, right)
    )
    np.testing.assert_array_equal(jnp.concatenate(halves, axis=-1), whole)


def test_the_ring_replaces_the_oldest():
    first, second = numbered(2, 2), numbered(2, 2, first=4)
    assert slots(ring_of(first, capacity=5)) == [0, 1, 2, 3, 0]  # the last is empty
    ring = ring_of(first, second, capacity=5)
    # 4 takes the empty place, then 5 6 7 those of 0 1 2; 3 is the oldest that stays
    assert slots(ring) == [5, 6, 7, 3, 4]
    assert ring.filled == 5
    assert_whole(ring.rows)


def test_the_ring_wraps_many_times():
    ring = ring_of(*(numbered(1, 2, first=2 * k) for k in range(20)), capacity=3)
    assert sorted(slots(ring)) == [37, 38, 39]


def test_a_rollout_longer_than_the_ring_leaves_its_end():
    ring = ring_of(numbered(5, 2), capacity=4)
    assert sorted(slots(ring)) == [6, 7, 8, 9]
    assert_whole(ring.rows)


def test_the_ring_has_the_shapes_and_dtypes_of_its_rows():
    like = Transition(
        obs=jnp.zeros(3),
        action=jnp.zeros((), int),
        reward=jnp.zeros(()),
        next_obs=jnp.zeros(3),
        terminated=jnp.zeros((), bool),
        truncated=jnp.zeros((), bool),
    )
    ring = replay.Ring.empty(like, 4)
    rollout = jax.tree.map(lambda x: jnp.ones((3, 2, *x.shape), x.dtype), like)
    for rows in (ring.rows, ring.insert(rollout).rows):
        for row, one in zip(rows, like, strict=True):
            assert (row.shape, row.dtype) == ((4, *one.shape), one.dtype)


def test_a_sample_draws_every_filled_row_and_no_other(key):
    ring = ring_of(numbered(3, 1, first=1), capacity=8)  # empty rows hold 0
    got = ring.sample(key, 300)
    assert set(got.reward.tolist()) == {1, 2, 3}
    assert_whole(got)


def test_a_sample_draws_evenly_from_a_full_ring(key):
    ring = ring_of(numbered(3, 2), capacity=4)  # 2 3 4 5 are left
    got = ring.sample(key, 4000).reward.astype(int)
    # Each is drawn 1000 times, give or take √(4000·¼·¾) = 27.
    np.testing.assert_allclose(np.bincount(got)[2:], [1000] * 4, atol=4 * 27)
    assert got.min() == 2


def test_a_sample_has_the_shape_asked_for(key):
    ring = ring_of(numbered(3, 2), capacity=8)
    got = jax.jit(lambda ring: ring.sample(key, 5, 2))(ring)
    assert got.reward.shape == (5, 2)
    assert got.obs.shape == (5, 2, 2)
    assert_whole(got)


def test_the_ring_can_be_filled_inside_a_jit():
    ring = ring_of(capacity=5)
    insert = jax.jit(replay.Ring.insert)
    for first in (0, 4):
        ring = insert(ring, numbered(2, 2, first=first))
    assert slots(ring) == [5, 6, 7, 3, 4]
    assert insert._cache_size() == 1
