"""Minibatches and the replay buffer, on numbered transitions."""

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


def rewards(buffer: replay.DeviceReplay) -> list[float]:
    return buffer.rows.reward.tolist()


def filled(*rollouts: Transition, capacity: int) -> replay.DeviceReplay:
    one = jax.tree.map(lambda x: x[0, 0], numbered(1, 1))
    buffer = replay.DeviceReplay.empty(one, capacity)
    for rollout in rollouts:
        buffer = buffer.insert(rollout)
    return buffer


def assert_whole(batch: Transition) -> None:
    """Every row is one transition, not parts of several."""
    for wide in (batch.obs, batch.action, batch.next_obs):
        np.testing.assert_array_equal(wide[..., 0], batch.reward)
        np.testing.assert_array_equal(wide[..., 1], -batch.reward)
    np.testing.assert_array_equal(batch.terminated, batch.reward)


def test_flatten_keeps_the_order_of_steps():
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


def test_leftover_steps_are_dropped(key):
    got = replay.minibatches(numbered(7, 2), 3, key)
    # 7 steps make 3 minibatches of 2 and leave one; each step has 2 transitions
    assert got.reward.shape == (3, 4)
    assert len(np.unique(got.reward)) == 12


def test_leftover_steps_are_random(key):
    rollout = numbered(3, 1)
    dropped = {
        3.0 - float(replay.minibatches(rollout, 2, each).reward.sum())
        for each in jax.random.split(key, 30)
    }
    assert dropped == {0.0, 1.0, 2.0}  # 0 + 1 + 2 = 3, less the two that are kept


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


def test_more_minibatches_than_steps_are_rejected(key):
    with pytest.raises(ValueError, match=r"3 steps .*4 minibatches"):
        replay.minibatches(numbered(3, 8), 4, key)


def test_half_of_the_environments_gives_half_of_each_minibatch(key):
    rollout = numbered(7, 4)
    left = jax.tree.map(lambda x: x[:, :2], rollout)
    right = jax.tree.map(lambda x: x[:, 2:], rollout)
    whole, *halves = (
        replay.minibatches(each, 3, key).reward.reshape(3, 2, -1)  # [count, steps, N]
        for each in (rollout, left, right)
    )
    np.testing.assert_array_equal(jnp.concatenate(halves, axis=-1), whole)


def test_insert_replaces_the_oldest_transitions():
    first, second = numbered(2, 2), numbered(2, 2, first=4)
    assert rewards(filled(first, capacity=5)) == [0, 1, 2, 3, 0]  # the last is empty
    buffer = filled(first, second, capacity=5)
    # 4 goes to the empty row, then 5 6 7 replace 0 1 2; 3 is the oldest that is kept
    assert rewards(buffer) == [5, 6, 7, 3, 4]
    assert buffer.filled == 5
    assert_whole(buffer.rows)


def test_the_buffer_wraps_around_many_times():
    buffer = filled(*(numbered(1, 2, first=2 * k) for k in range(20)), capacity=3)
    assert sorted(rewards(buffer)) == [37, 38, 39]


def test_a_rollout_longer_than_the_buffer_leaves_its_last_transitions():
    buffer = filled(numbered(5, 2), capacity=4)
    assert sorted(rewards(buffer)) == [6, 7, 8, 9]
    assert_whole(buffer.rows)


def test_the_buffer_has_the_shapes_and_dtypes_of_its_rows():
    like = Transition(
        obs=jnp.zeros(3),
        action=jnp.zeros((), int),
        reward=jnp.zeros(()),
        next_obs=jnp.zeros(3),
        terminated=jnp.zeros((), bool),
        truncated=jnp.zeros((), bool),
    )
    buffer = replay.DeviceReplay.empty(like, 4)
    rollout = jax.tree.map(lambda x: jnp.ones((3, 2, *x.shape), x.dtype), like)
    for rows in (buffer.rows, buffer.insert(rollout).rows):
        for row, one in zip(rows, like, strict=True):
            assert (row.shape, row.dtype) == ((4, *one.shape), one.dtype)


def test_sample_draws_filled_rows_only(key):
    buffer = filled(numbered(3, 1, first=1), capacity=8)  # empty rows hold 0
    got = buffer.sample(key, 300)
    assert set(got.reward.tolist()) == {1, 2, 3}
    assert_whole(got)


def test_sample_draws_uniformly_from_a_full_buffer(key):
    buffer = filled(numbered(3, 2), capacity=4)  # 2 3 4 5 are left
    got = buffer.sample(key, 4000).reward.astype(int)
    # Each is drawn 1000 times, give or take √(4000·¼·¾) = 27.
    np.testing.assert_allclose(np.bincount(got)[2:], [1000] * 4, atol=4 * 27)
    assert got.min() == 2


def test_sample_has_the_requested_shape(key):
    buffer = filled(numbered(3, 2), capacity=8)
    got = jax.jit(lambda buffer: buffer.sample(key, 5, 2))(buffer)
    assert got.reward.shape == (5, 2)
    assert got.obs.shape == (5, 2, 2)
    assert_whole(got)


def test_insert_compiles_once():
    buffer = filled(capacity=5)
    insert = jax.jit(replay.DeviceReplay.insert)
    for first in (0, 4):
        buffer = insert(buffer, numbered(2, 2, first=first))
    assert rewards(buffer) == [5, 6, 7, 3, 4]
    assert insert._cache_size() == 1
