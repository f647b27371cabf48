"""Behaviour that is specific to one algorithm."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import SPEC, fake_batch, leaves, small_config

from jaxrl.algos import ddpg, ppo, sac, td3, trpo, vpg


def start(algo, **changes):
    return algo.init(jax.random.key(0), SPEC, small_config(algo, **changes))


def same(one, other):
    return all(map(np.array_equal, leaves(one), leaves(other)))


def updated(algo, state, steps=1, batch=None):
    batch = fake_batch(algo, jax.random.key(1)) if batch is None else batch
    for _ in range(steps):
        state, metrics = jax.jit(algo.update)(state, batch)
    return state, metrics


def test_vpg_metrics_compare_before_and_after_the_step():
    _, metrics = updated(vpg, start(vpg, pi_lr=0.1))
    assert metrics["KL"] > 1e-4
    assert metrics["DeltaLossPi"] < -1e-4
    assert metrics["DeltaLossV"] < -1e-4


@pytest.mark.parametrize("algo", [vpg, trpo, ppo], ids=["vpg", "trpo", "ppo"])
def test_zero_value_steps_leave_the_critic_unchanged(algo):
    state = start(algo, train_v_iters=0)
    after, metrics = updated(algo, state)
    assert same(after.critic, state.critic)
    assert metrics["DeltaLossV"] == 0


@pytest.mark.parametrize("algo", [vpg, trpo, ppo], ids=["vpg", "trpo", "ppo"])
def test_equal_advantages_leave_the_policy_unchanged_and_finite(algo):
    batch = fake_batch(algo, jax.random.key(1))
    ended = jnp.ones_like(batch.terminated)
    batch = batch._replace(reward=jnp.ones_like(batch.reward), terminated=ended)
    state = start(algo)
    zeros = jax.tree.map(jnp.zeros_like, state.critic.params)
    critic = dataclasses.replace(state.critic, params=zeros)
    after, metrics = updated(algo, dataclasses.replace(state, critic=critic), 1, batch)
    assert all(np.isfinite(x).all() for x in leaves((after.actor, metrics)))
    assert metrics["KL"] < 1e-6  # advantages are all zero: nothing to learn


@pytest.mark.parametrize("algo", [vpg, trpo, ppo], ids=["vpg", "trpo", "ppo"])
def test_scaling_the_rewards_does_not_change_what_the_critic_learns(algo):
    batch = fake_batch(algo, jax.random.key(1))
    large = batch._replace(reward=1000 * batch.reward)
    # Without a future, returns are rewards, whatever the critic says.
    state = start(algo, normalize_returns=True, vf_lr=0.01, gamma=0.0)
    one, _ = updated(algo, state, 10, batch)
    other, _ = updated(algo, state, 10, large)
    ratio = other.return_norm.std / one.return_norm.std
    np.testing.assert_allclose(ratio, 1000, rtol=1e-4)
    small, big = (
        s.networks.critic.apply(s.critic.params, batch.obs) for s in (one, other)
    )
    # Adam makes full steps even on gradients that are only rounding errors.
    np.testing.assert_allclose(small, big, atol=0.05)
    assert np.abs(small).max() > 0.2


@pytest.mark.parametrize("algo", [vpg, trpo, ppo], ids=["vpg", "trpo", "ppo"])
def test_logged_values_are_in_the_units_of_the_rewards(algo):
    batch = fake_batch(algo, jax.random.key(1))
    ended = jnp.ones_like(batch.terminated)
    batch = batch._replace(reward=500 + 0 * batch.reward, terminated=ended)
    _, metrics = updated(algo, start(algo, vf_lr=0.01), 30, batch)
    np.testing.assert_allclose(metrics["VVals"], 500, rtol=0.01)


def test_trpo_step_nearly_reaches_the_kl_limit_and_improves():
    _, metrics = updated(trpo, start(trpo, delta=0.01))
    assert 0.004 < metrics["KL"] <= 0.01
    assert metrics["DeltaLossPi"] < 0
    assert metrics["BacktrackIters"] < 10


def test_trpo_keeps_its_parameters_when_the_line_search_fails():
    # The quadratic model of the KL does not hold for so large a step.
    state = start(trpo, delta=1e4, backtrack_iters=2)
    after, metrics = updated(trpo, state)
    assert metrics["BacktrackIters"] == 2
    assert same(after.actor, state.actor)
    assert not same(after.critic, state.critic)


def test_trpo_line_search_takes_the_first_step_within_the_kl_limit_and_no_worse():
    cfg = start(trpo, delta=0.3, backtrack_coeff=0.5, backtrack_iters=4).config
    # J(θ) = θ, KL = θ²: of 1, ½, ¼, ⅛ the first with θ² ≤ 0.3 is ½
    theta, rejected = trpo.line_search(
        jnp.zeros(1), jnp.ones(1), lambda x: (x[0], x[0] ** 2), cfg, lambda x: x
    )
    np.testing.assert_allclose(theta, [0.5])
    assert rejected == 1
    # J(θ) = −θ is worse everywhere
    theta, rejected = trpo.line_search(
        jnp.zeros(1), jnp.ones(1), lambda x: (-x[0], x[0] ** 2), cfg, lambda x: x
    )
    np.testing.assert_allclose(theta, [0.0])
    assert rejected == 4


def test_trpo_without_line_search_takes_the_full_natural_step():
    searched, _ = updated(trpo, start(trpo, delta=1e4, backtrack_iters=2))
    npg, metrics = updated(trpo, start(trpo, delta=1e4, line_search=False))
    assert not same(npg.actor, searched.actor)
    assert metrics["KL"] > 1


def test_trpo_natural_step_solves_the_damped_system_and_has_kl_delta():
    cfg = start(trpo, delta=0.02, damping_coeff=0.5, cg_iters=10).config
    fisher = jnp.array([[2.0, 1.0], [1.0, 3.0]])
    gradient = jnp.array([1.0, -2.0])
    step = trpo.natural_step(gradient, lambda v: fisher @ v, cfg)
    damped = np.array(fisher) + 0.5 * np.eye(2)
    x = np.linalg.solve(damped, gradient)
    np.testing.assert_allclose(step, np.sqrt(0.04 / (x @ damped @ x)) * x, rtol=1e-4)
    np.testing.assert_allclose(0.5 * step @ damped @ step, 0.02, rtol=1e-4)


def test_ppo_stops_policy_steps_but_not_value_steps_beyond_target_kl():
    free, metrics = updated(ppo, start(ppo, pi_lr=0.05))
    assert metrics["StopIter"] == 3 * 2  # passes times minibatches
    stopped, metrics = updated(ppo, start(ppo, pi_lr=0.05, target_kl=1e-9))
    assert metrics["StopIter"] == 1  # the first step finds a KL of 0
    assert not same(free.actor, stopped.actor)
    assert same(stopped.critic.opt_state[1][0].count, free.critic.opt_state[1][0].count)


def test_ppo_stops_all_learners_at_the_mean_of_their_kl():
    state = start(ppo, pi_lr=0.01, target_kl=0.02, minibatches=1, train_pi_iters=20)
    batch = fake_batch(ppo, jax.random.key(1))
    _, alone = updated(ppo, state, batch=batch)
    assert 1 < alone["StopIter"] < 20
    parts = jax.tree.map(lambda x: jnp.stack(jnp.split(x, 2, axis=1)), batch)
    pmean = functools.partial(jax.lax.pmean, axis_name="learner")
    update = jax.vmap(lambda part: ppo.update(state, part, pmean), axis_name="learner")
    after, metrics = update(parts)
    np.testing.assert_array_equal(metrics["StopIter"], [alone["StopIter"]] * 2)
    assert metrics["KL"][0] != metrics["KL"][1]  # each has its own part of the batch
    np.testing.assert_array_equal(
        after.actor.opt_state[1][0].count, metrics["StopIter"]
    )


def test_ppo_with_one_minibatch_does_not_depend_on_the_shuffle():
    state = start(ppo, minibatches=1, train_pi_iters=1, max_grad_norm=float("inf"))
    state = dataclasses.replace(state, key=jax.random.key(9))
    other = dataclasses.replace(state, key=jax.random.key(8))
    assert same(updated(ppo, state)[0].actor, updated(ppo, other)[0].actor)
    shuffled = start(ppo, minibatches=4)
    other = dataclasses.replace(shuffled, key=jax.random.key(8))
    assert not same(updated(ppo, shuffled)[0].actor, updated(ppo, other)[0].actor)


def test_ppo_without_policy_passes_leaves_the_policy_unchanged():
    state = start(ppo, train_pi_iters=0)
    after, metrics = updated(ppo, state)
    assert same(after.actor, state.actor)
    assert not same(after.critic, state.critic)
    assert metrics["StopIter"] == 0


def test_ppo_learning_rate_decays_linearly_over_the_run():
    state = start(ppo, pi_lr=0.1, lr_decay=1.0, total_updates=4.0)
    rates = []
    for _ in range(6):
        state, metrics = updated(ppo, state)
        rates.append(float(metrics["LearningRate"]))
    np.testing.assert_allclose(rates, [0.1, 0.075, 0.05, 0.025, 0, 0], atol=1e-7)
    _, metrics = updated(ppo, start(ppo, pi_lr=0.1, lr_decay=0.0, total_updates=4.0), 3)
    np.testing.assert_allclose(metrics["LearningRate"], 0.1)


def test_ppo_entropy_bonus_widens_the_policy():
    for coef, wider in (0.0, False), (10.0, True):
        state = start(ppo, entropy_coef=coef, pi_lr=0.01)
        after, _ = updated(ppo, state, 5)
        before, now = (s.actor.params["params"]["log_std"] for s in (state, after))
        assert bool((now > before).all()) == wider


def test_ppo_refresh_advantages_changes_the_update():
    stale, _ = updated(ppo, start(ppo, refresh_advantages=False, vf_lr=0.1))
    fresh, _ = updated(ppo, start(ppo, refresh_advantages=True, vf_lr=0.1))
    assert not same(stale.actor, fresh.actor)


def test_td3_delay_is_counted_over_the_whole_run():
    state, changed = start(td3, policy_delay=3), []
    for _ in range(7):
        after, _ = updated(td3, state)
        changed.append(not same(after.actor, state.actor))
        assert same(after.target, state.target) != changed[-1]
        assert not same(after.critic, state.critic)
        state = after
    assert changed == [True, False, False, True, False, False, True]


@pytest.mark.parametrize("algo", [ddpg, td3], ids=["ddpg", "td3"])
def test_exploration_noise_has_standard_deviation_act_noise(algo):
    state = start(algo, act_noise=0.1)
    obs = jnp.zeros((20_000, 3))
    noise = algo.act(state, obs, jax.random.key(0)) - algo.act(state, obs)
    np.testing.assert_allclose(noise.std(), 0.1, rtol=0.02)
    np.testing.assert_allclose(noise.mean(), 0.0, atol=0.002)


def test_sac_temperature_changes_only_with_learn_alpha():
    fixed = start(sac, alpha=0.2, learn_alpha=False)
    after, metrics = updated(sac, fixed, 3)
    np.testing.assert_allclose(metrics["Alpha"], 0.2, rtol=1e-6)
    assert same(after.log_alpha, fixed.log_alpha)
    learned, _ = updated(sac, start(sac), 3)
    assert not same(learned.log_alpha, start(sac).log_alpha)


def test_sac_trains_more_than_two_critics():
    state = start(sac, num_critics=3)
    after, metrics = updated(sac, state)
    assert len(after.critic.params) == len(after.target) == 3
    assert {"Q1Vals", "Q2Vals", "Q3Vals"} <= set(metrics)
    assert not same(after.critic.params[0], after.critic.params[2])


@pytest.mark.parametrize("algo", [ddpg, td3, sac], ids=["ddpg", "td3", "sac"])
def test_target_networks_move_by_tau(algo):
    state = start(algo, tau=0.25)
    after, _ = updated(algo, state)
    pairs = (
        (state.target, after.critic.params, after.target)
        if algo is sac
        else (state.target, (after.actor.params, after.critic.params), after.target)
    )
    for old, online, new in zip(*map(leaves, pairs), strict=True):
        np.testing.assert_allclose(new, 0.75 * old + 0.25 * online, atol=1e-6)
