"""Distributions against closed forms, integrals and their own samples."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxrl.maths.distributions import (
    Bernoulli,
    Categorical,
    Gaussian,
    MultiCategorical,
    TanhGaussian,
)

MANY = 200_000
WIDE = Gaussian(jnp.array([0.5, -1.0]), jnp.log(jnp.array([2.0, 0.3])))
NARROW = Gaussian(jnp.array([0.0, -0.8]), jnp.log(jnp.array([1.5, 0.5])))
# Logits are log-probabilities up to a constant, here 5.
SKEWED = Categorical(jnp.log(jnp.array([0.1, 0.2, 0.7])) + 5)
EVEN = Categorical(jnp.zeros(3))
BOTH = MultiCategorical((SKEWED, Categorical(jnp.array([0.0, 2.0]))))
EVEN_BOTH = MultiCategorical((EVEN, Categorical(jnp.zeros(2))))
SWITCHES = Bernoulli(jnp.array([-2.0, 0.5, 3.0]))
COINS = Bernoulli(jnp.zeros(3))
PAIRS = {
    "wide-narrow": (WIDE, NARROW),
    "narrow-wide": (NARROW, WIDE),
    "skewed-even": (SKEWED, EVEN),
    "even-skewed": (EVEN, SKEWED),
    "both-even": (BOTH, EVEN_BOTH),
    "even-both": (EVEN_BOTH, BOTH),
    "switches-coins": (SWITCHES, COINS),
    "coins-switches": (COINS, SWITCHES),
}

pairs = pytest.mark.parametrize(("dist", "other"), PAIRS.values(), ids=PAIRS)
each = pytest.mark.parametrize(
    "dist",
    [WIDE, SKEWED, BOTH, SWITCHES],
    ids=["gaussian", "categorical", "several", "switches"],
)


def repeated(dist: Any, count: int = MANY) -> Any:
    """`count` rows of one distribution."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), dist)


def test_gaussian_log_prob_equals_scipys_normal():
    action = jnp.array([[0.5, -1.0], [1.5, -1.5], [-7.5, 1.0]])
    got = repeated(WIDE, 3).log_prob(action)
    want = stats.norm.logpdf(action, [0.5, -1.0], [2.0, 0.3]).sum(axis=-1)
    assert got.shape == (3,)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_gaussian_entropy_equals_scipys_normal():
    want = stats.norm.entropy(scale=[2.0, 0.3]).sum()
    np.testing.assert_allclose(WIDE.entropy(), want, rtol=1e-6)


def test_gaussian_kl_by_hand_in_both_directions():
    unit = Gaussian(jnp.zeros(1), jnp.zeros(1))  # N(0, 1)
    other = Gaussian(jnp.ones(1), jnp.log(2 * jnp.ones(1)))  # N(1, 2²)
    # KL(unit‖other) = log 2/1 + (1 + 1)/(2·4) − ½ =  log 2 − 0.25
    # KL(other‖unit) = log 1/2 + (4 + 1)/(2·1) − ½ = −log 2 + 2
    np.testing.assert_allclose(unit.kl(other), np.log(2) - 0.25, rtol=1e-6)
    np.testing.assert_allclose(other.kl(unit), 2 - np.log(2), rtol=1e-6)


def test_gaussian_samples_have_its_mean_and_standard_deviation(key):
    draws = repeated(WIDE).sample(key)
    assert draws.shape == (MANY, 2)
    # The mean of 200 000 is off by σ/447; five times that is allowed.
    np.testing.assert_allclose(draws.mean(axis=0), WIDE.mean, atol=2 * 5 / 447)
    np.testing.assert_allclose(draws.std(axis=0), [2.0, 0.3], rtol=0.01)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.01


def test_gaussian_mode_is_its_mean():
    np.testing.assert_array_equal(WIDE.mode(), WIDE.mean)


def test_categorical_log_prob_picks_the_choice_of_each_row():
    dist = Categorical(jnp.stack([SKEWED.logits, jnp.zeros(3)]))
    for dtype in (jnp.int32, jnp.float32):  # a replayed action may have become real
        got = dist.log_prob(jnp.array([1, 2], dtype))
        np.testing.assert_allclose(got, np.log([0.2, 1 / 3]), rtol=1e-5)


def test_categorical_entropy_is_minus_p_log_p():
    p = np.array([0.1, 0.2, 0.7])
    np.testing.assert_allclose(SKEWED.entropy(), -(p * np.log(p)).sum(), rtol=1e-5)
    np.testing.assert_allclose(EVEN.entropy(), np.log(3), rtol=1e-6)


def test_categorical_kl_by_hand_in_both_directions():
    p, q = np.array([0.1, 0.2, 0.7]), np.full(3, 1 / 3)
    np.testing.assert_allclose(
        SKEWED.kl(EVEN), (p * np.log(p / q)).sum(), rtol=1e-5
    )  # 0.297
    np.testing.assert_allclose(
        EVEN.kl(SKEWED), (q * np.log(q / p)).sum(), rtol=1e-5
    )  # 0.324


def test_categorical_samples_have_its_frequencies(key):
    draws = repeated(SKEWED).sample(key)
    assert draws.shape == (MANY,)
    frequencies = np.bincount(draws, minlength=3) / MANY
    np.testing.assert_allclose(frequencies, [0.1, 0.2, 0.7], atol=0.005)


def test_categorical_mode_is_the_likeliest_choice():
    assert SKEWED.mode() == 2
    rows = Categorical(jnp.array([[3.0, 1.0, 2.0], [-3.0, -1.0, -2.0]]))
    np.testing.assert_array_equal(rows.mode(), [0, 1])


@each
def test_entropy_is_the_mean_of_minus_log_prob(dist, key):
    rows = repeated(dist)
    surprise = -rows.log_prob(rows.sample(key)).mean()
    np.testing.assert_allclose(dist.entropy(), surprise, atol=0.01)


@pairs
def test_kl_is_the_mean_log_ratio_under_the_first_distribution(dist, other, key):
    rows, others = repeated(dist), repeated(other)
    action = rows.sample(key)
    log_ratio = (rows.log_prob(action) - others.log_prob(action)).mean()
    np.testing.assert_allclose(dist.kl(other), log_ratio, atol=0.02)
    # The other direction is another number, so the check above can tell.
    assert abs(dist.kl(other) - other.kl(dist)) > 0.025


@each
def test_kl_of_equal_distributions_is_zero_and_flat(dist):
    value, slope = jax.value_and_grad(lambda new: dist.kl(new))(dist)
    np.testing.assert_allclose(value, 0, atol=1e-6)
    for leaf in jax.tree.leaves(slope):
        np.testing.assert_allclose(leaf, 0, atol=1e-6)


def test_several_discrete_actions_multiply_their_probabilities():
    parts = [part.log_prob(jnp.array(i)) for i, part in enumerate(BOTH.parts)]
    np.testing.assert_allclose(BOTH.log_prob(jnp.array([0, 1])), sum(parts), rtol=1e-6)
    np.testing.assert_array_equal(BOTH.mode(), [2, 1])


def test_switches_by_hand():
    # p = 1 / (1 + e^-logit): log p for a switch that is on, log(1 - p) for one off
    p = 1 / (1 + np.exp(-np.array([-2.0, 0.5, 3.0])))
    expected = np.log(1 - p[0]) + np.log(p[1]) + np.log(1 - p[2])
    got = SWITCHES.log_prob(jnp.array([0, 1, 0]))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    np.testing.assert_array_equal(SWITCHES.mode(), [0, 1, 1])


def test_categorical_kl_does_not_depend_on_a_constant_in_the_logits():
    shifted = Categorical(SKEWED.logits - 40)
    np.testing.assert_allclose(SKEWED.kl(shifted), 0, atol=1e-5)


def test_tanh_gaussian_log_prob_is_the_change_of_variables(key):
    dist = TanhGaussian(jnp.array([0.3, -0.5]), jnp.log(jnp.array([0.5, 1.2])))
    noise = jax.random.normal(key, (50, 2))
    action, log_prob = repeated(dist, 50).reparameterize(noise)
    u = [0.3, -0.5] + np.array([0.5, 1.2]) * np.asarray(noise, np.float64)
    # log π(a) = Σ log N(u; μ, σ) − log |da/du|,  da/du = 1 − tanh² u
    log_normal = stats.norm.logpdf(u, [0.3, -0.5], [0.5, 1.2])
    want = (log_normal - np.log(1 - np.tanh(u) ** 2)).sum(axis=-1)
    np.testing.assert_allclose(action, np.tanh(u), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(log_prob, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.5), (0.4, 0.8), (-1.0, 0.3)])
def test_tanh_gaussian_density_integrates_to_one(mean, std):
    edge = np.tanh(6.0)
    grid = np.linspace(-edge, edge, 40_001)  # of actions
    noise = jnp.asarray((np.arctanh(grid) - mean) / std, jnp.float32)[:, None]
    dist = TanhGaussian(jnp.array([mean]), jnp.log(jnp.array([std])))
    action, log_prob = repeated(dist, len(grid)).reparameterize(noise)
    np.testing.assert_allclose(action[:, 0], grid, atol=1e-5)
    mass = np.trapezoid(np.exp(log_prob), grid)
    np.testing.assert_allclose(mass, 1, atol=1e-3)


@pytest.mark.parametrize("mean", [-1000.0, -50.0, 50.0, 1000.0])
def test_tanh_gaussian_is_exact_where_tanh_rounds_to_one(mean):
    def log_prob(dist: TanhGaussian) -> jax.Array:
        return dist.reparameterize(jnp.ones(1))[1]

    dist = TanhGaussian(jnp.array([mean]), jnp.zeros(1))
    action, _ = dist.reparameterize(jnp.ones(1))
    u = mean + 1.0
    assert jnp.abs(action) <= 1
    # log(1 − tanh² u) = 2 log 2 − 2|u| − 2 log(1 + e^−2|u|), and the last is 0 here
    want = -0.5 - 0.5 * np.log(2 * np.pi) - 2 * np.log(2) + 2 * abs(u)
    value, slope = jax.value_and_grad(log_prob)(dist)
    np.testing.assert_allclose(value, want, rtol=1e-6)
    np.testing.assert_allclose(slope.mean, [2 * np.sign(u)], rtol=1e-5)


def test_tanh_gaussian_samples_are_the_tanh_of_gaussian_samples(key):
    dist = TanhGaussian(jnp.array([0.3, -0.5]), jnp.log(jnp.array([0.5, 0.8])))
    draws = repeated(dist).sample(key)
    u = np.arctanh(draws)
    np.testing.assert_allclose(u.mean(axis=0), [0.3, -0.5], atol=0.01)
    np.testing.assert_allclose(u.std(axis=0), [0.5, 0.8], rtol=0.01)


def test_tanh_gaussian_samples_stay_within_one(key):
    dist = TanhGaussian(jnp.array([50.0, 0.0]), jnp.array([0.0, 2.0]))
    draws = repeated(dist, 1000).sample(key)
    assert jnp.isfinite(draws).all()
    assert jnp.abs(draws).max() <= 1


def test_tanh_gaussian_mode_is_its_median(key):
    dist = TanhGaussian(jnp.array([0.7]), jnp.log(jnp.array([0.9])))
    np.testing.assert_allclose(dist.mode(), np.tanh(0.7), rtol=1e-6)
    below = repeated(dist).sample(key) < dist.mode()[None]
    np.testing.assert_allclose(below.mean(), 0.5, atol=0.01)
