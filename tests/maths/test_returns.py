"""Advantages by hand, by their definition, and with two learners."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.maths import returns
from jaxrl.types import Transition, identity

pmean = partial(jax.lax.pmean, axis_name="learner")


def rollout(reward, terminated, truncated) -> Transition:
    """Of one environment, [T, 1]."""
    column = partial(jnp.asarray, dtype=jnp.float32)
    reward, terminated, truncated = (
        column(x)[:, None] for x in (reward, terminated, truncated)
    )
    obs = jnp.zeros((*reward.shape, 2))
    return Transition(obs, obs, reward, obs, terminated, truncated)


def random_rollout(seed: int) -> tuple[Transition, jax.Array, jax.Array]:
    """[20, 3] with both kinds of ends, now and then in one step; V(s) and V(s′)."""
    rng = np.random.default_rng(seed)
    terminated, truncated = rng.random((2, 20, 3)) < 0.15
    obs = jnp.zeros((20, 3, 1))
    reward, value, next_value = jnp.asarray(rng.normal(size=(3, 20, 3)), jnp.float32)
    ends = jnp.asarray(terminated), jnp.asarray(truncated)
    return Transition(obs, obs, reward, obs, *ends), value, next_value


def discounted(x: np.ndarray, last: np.ndarray, rate: float) -> np.ndarray:
    """Σₖ rateᵏ xₜ₊ₖ from each step t [T, N] to the first that is `last`."""
    total = np.zeros(x.shape)
    for t, n in np.ndindex(x.shape):
        for k in range(len(x) - t):
            total[t, n] += rate**k * x[t + k, n]
            if last[t + k, n]:
                break
    return total


def test_gae_bootstraps_through_truncation_but_not_termination():
    batch = rollout(reward=[1, 1, 1], terminated=[0, 1, 0], truncated=[0, 0, 1])
    value, next_value = jnp.full((3, 1), 10.0), jnp.full((3, 1), 20.0)
    got = returns.gae(batch, value, next_value, gamma=0.5, lam=0.5)
    # t=2  truncated:   δ = 1 + 0.5·20 − 10 =  1      A₂ =  1   (nothing follows)
    # t=1  terminated:  δ = 1 +     0  − 10 = −9      A₁ = −9   (trace is cut)
    # t=0  running:     δ = 1 + 0.5·20 − 10 =  1      A₀ =  1 + 0.25·(−9) = −1.25
    np.testing.assert_allclose(got[:, 0], [-1.25, -9.0, 1.0])


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_gae_equals_the_discounted_sum_of_td_errors(seed, gamma, lam):
    batch, value, next_value = random_rollout(seed)
    got = returns.gae(batch, value, next_value, gamma, lam)
    alive = 1 - np.asarray(batch.terminated, float)
    delta = np.asarray(batch.reward) + gamma * alive * next_value - value
    last = np.asarray(batch.terminated | batch.truncated)
    want = discounted(np.asarray(delta), last, gamma * lam)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_gae_with_lam_one_equals_reward_to_go_minus_value(seed, gamma):
    batch, value, next_value = random_rollout(seed)
    last = np.array(batch.terminated | batch.truncated)
    last[-1] = True  # the rollout ends; V(s′) replaces the later rewards
    following = jnp.roll(value, -1, axis=0)  # within an episode s′ is the next s
    next_value = jnp.where(last, next_value, following)
    got = returns.gae(batch, value, next_value, gamma, lam=1.0)
    cut = last & ~np.asarray(batch.terminated)
    gain = np.asarray(batch.reward) + gamma * cut * np.asarray(next_value)
    want = discounted(gain, last, gamma) - value
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_gae_with_lam_zero_equals_the_td_error():
    batch = rollout(reward=[1, 2], terminated=[0, 0], truncated=[0, 0])
    value, next_value = jnp.array([[3.0], [4.0]]), jnp.array([[4.0], [6.0]])
    got = returns.gae(batch, value, next_value, gamma=0.5, lam=0.0)
    # 1 + 0.5·4 − 3 = 0,  2 + 0.5·6 − 4 = 1
    np.testing.assert_allclose(got[:, 0], [0.0, 1.0])


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_advantages_do_not_depend_on_later_episodes(end):
    ends = {"terminated": [0] * 6, "truncated": [0] * 6} | {end: [0, 0, 1, 0, 0, 0]}
    value = next_value = jnp.ones((6, 1))
    plain = rollout(reward=[1] * 6, **ends)
    rich = rollout(reward=[1, 1, 1, 1000, 1000, 1000], **ends)
    before, after = (
        returns.gae(batch, value, next_value, gamma=0.9, lam=0.9)
        for batch in (plain, rich)
    )
    np.testing.assert_array_equal(before[:3], after[:3])
    assert (after[3:] > before[3:] + 100).all()


def test_a_step_that_is_terminated_and_truncated_counts_as_terminated():
    batch = rollout(reward=[1], terminated=[1], truncated=[1])
    got = returns.gae(batch, jnp.full((1, 1), 10.0), jnp.full((1, 1), 20.0), 0.5, 0.5)
    np.testing.assert_allclose(got[:, 0], [-9.0])  # 1 + 0 − 10


def test_the_value_of_a_terminal_state_is_not_used():
    batch = rollout(reward=[1, 1], terminated=[0, 1], truncated=[0, 0])
    value, next_value = jnp.zeros((2, 1)), jnp.array([[2.0], [jnp.inf]])
    got = returns.gae(batch, value, next_value, gamma=0.5, lam=1.0)
    # A₁ = 1 + 0 − 0 = 1,  A₀ = 1 + 0.5·2 − 0 + 0.5·A₁ = 2.5
    np.testing.assert_allclose(got[:, 0], [2.5, 1.0])


def test_standardized_advantages_have_mean_zero_and_deviation_one(key):
    got = returns.standardize(7 + 3 * jax.random.normal(key, (16, 4)), identity)
    np.testing.assert_allclose(got.mean(), 0, atol=1e-6)
    np.testing.assert_allclose(got.std(), 1, rtol=1e-5)


def test_standardize_by_hand():
    got = returns.standardize(jnp.array([[1.0, 3.0], [5.0, 7.0]]), identity)
    # mean 4, centred −3 −1 1 3, variance (9 + 1 + 1 + 9)/4 = 5
    np.testing.assert_allclose(
        got, np.array([[-3, -1], [1, 3]]) / np.sqrt(5), rtol=1e-6
    )


# 0 and 2 have an exact mean; that of the others is rounded.
@pytest.mark.parametrize("value", [0.0, 2.0, 0.1, -3.3, 1000.1])
@pytest.mark.parametrize("size", [7, 64, 2048])
def test_equal_advantages_are_standardized_to_zero(value, size):
    got = returns.standardize(jnp.full((size, 1), value), identity)
    np.testing.assert_allclose(got, 0, atol=1e-3)


def test_two_learners_standardize_like_one(key):
    advantage = jax.random.normal(key, (8, 4)) + jnp.arange(4.0)[None]  # [T, N]
    halves = jnp.stack([advantage[:, :2], advantage[:, 2:]])
    standardize = partial(returns.standardize, pmean=pmean)
    left, right = jax.vmap(standardize, axis_name="learner")(halves)
    whole = returns.standardize(advantage, identity)
    np.testing.assert_allclose(jnp.hstack([left, right]), whole, rtol=1e-4, atol=1e-6)


def test_explained_variance_is_one_for_a_perfect_and_zero_for_a_constant_guess(key):
    target = jax.random.normal(key, (8, 4))
    perfect = returns.explained_variance(target, target)
    constant = returns.explained_variance(jnp.full((8, 4), 3.0), target)
    np.testing.assert_allclose(perfect, 1)
    np.testing.assert_allclose(constant, 0, atol=1e-5)


def test_explained_variance_by_hand():
    target, guess = jnp.array([1.0, 3.0, 5.0]), jnp.array([2.0, 3.0, 4.0])
    # Var[y] = (4 + 0 + 4)/3, the errors are −1 0 1 with Var (1 + 0 + 1)/3: 1 − 2/8
    np.testing.assert_allclose(returns.explained_variance(guess, target), 0.75)
    # and half the wrong way: the errors are 2 0 −2 of y = 1 3 5 for ŷ = −1 3 7
    worse = returns.explained_variance(jnp.array([-1.0, 3.0, 7.0]), target)
    np.testing.assert_allclose(worse, 0, atol=1e-6)
