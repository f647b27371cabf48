"""Losses and targets on two rows, against arithmetic shown in comments.

Networks have no hidden layer here, so that outputs are weighted sums computed by hand.
Gradients are compared with finite differences in double precision.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import SPEC, fake_batch, small_config

from jaxrl.algos import ddpg, ppo, sac, td3, trpo, vpg
from jaxrl.maths import critics
from jaxrl.maths.distributions import Categorical, Gaussian
from jaxrl.types import Box, Discrete, EnvSpec, Transition

ONE = EnvSpec(obs_size=1, action=Box((-1.0,), (1.0,)))
COIN = EnvSpec(obs_size=1, action=Discrete(2))


def linear(name, kernel, bias):
    """The variables of a module `name` with one dense layer."""
    dense = {"kernel": jnp.array(kernel, float), "bias": jnp.array(bias, float)}
    return {"params": {name: {"Dense_0": dense}}}


def transitions(**fields):
    zeros, never = jnp.zeros((2, 1)), jnp.zeros(2, bool)
    return Transition(zeros, zeros, jnp.zeros(2), zeros, never, never)._replace(
        **{name: jnp.array(value) for name, value in fields.items()}
    )


def linear_state(algo, spec=ONE, **settings):
    config = algo.Config(hidden=(), **settings)
    return algo.init(jax.random.key(0), spec, config)


# Q(s, a) = 2 s + 4 a + 1 and, as a twin, Q(s, a) = 7
Q = linear("trunk", [[2.0], [4.0]], [1.0])
SEVEN = linear("trunk", [[0.0], [0.0]], [7.0])
HALF = linear("trunk", [[0.0]], [math.atanh(0.5)])  # μ(s) = 0.5


def test_ddpg_target_is_the_bellman_equation():
    state = dataclasses.replace(linear_state(ddpg, gamma=0.5), target=(HALF, (Q,)))
    batch = transitions(
        reward=[1.0, 2.0], next_obs=[[1.0], [2.0]], terminated=[False, True]
    )
    # row 0: Q(1, 0.5) = 2 + 2 + 1 = 5    y = 1 + 0.5·5 = 3.5
    # row 1: terminated                   y = 2
    np.testing.assert_allclose(ddpg.target(state, batch), [3.5, 2.0], rtol=1e-6)


def test_ddpg_target_bootstraps_a_truncated_transition():
    state = dataclasses.replace(linear_state(ddpg, gamma=0.5), target=(HALF, (Q,)))
    batch = transitions(
        reward=[1.0, 2.0], next_obs=[[1.0], [2.0]], truncated=[True, True]
    )
    # row 1: Q(2, 0.5) = 4 + 2 + 1 = 7    y = 2 + 0.5·7 = 5.5
    np.testing.assert_allclose(ddpg.target(state, batch), [3.5, 5.5], rtol=1e-6)


def test_td3_target_uses_a_smoothed_action_and_the_lower_critic():
    state = linear_state(td3, gamma=0.5, target_noise=0.2, noise_clip=0.5)
    state = dataclasses.replace(state, target=(HALF, (Q, SEVEN)))
    batch = transitions(reward=[1.0, 2.0], next_obs=[[1.0], [2.0]])
    draws = jnp.array([[10.0], [-1.0]])
    # row 0: noise clip(2, ±0.5) = 0.5    a′ = 1.0    Q₁ = 2 + 4 + 1 = 7, Q₂ = 7
    # row 1: noise −0.2                   a′ = 0.3    Q₁ = 4 + 1.2 + 1 = 6.2, Q₂ = 7
    expected = [1 + 0.5 * 7, 2 + 0.5 * 6.2]
    np.testing.assert_allclose(td3.target(state, batch, draws), expected, rtol=1e-6)


def test_td3_target_action_is_clipped_to_its_range():
    nine_tenths = linear("trunk", [[0.0]], [math.atanh(0.9)])
    state = linear_state(td3, gamma=1.0, target_noise=0.2, noise_clip=0.5)
    state = dataclasses.replace(state, target=(nine_tenths, (Q, Q)))
    draws = jnp.array([[10.0], [10.0]])
    # a′ = clip(0.9 + 0.5, ±1) = 1    Q(0, 1) = 5
    np.testing.assert_allclose(td3.target(state, transitions(), draws), [5.0, 5.0])


def test_sac_target_is_the_soft_bellman_equation():
    state = linear_state(sac, gamma=0.5, alpha=0.2)
    zero = linear("trunk", [[0.0, 0.0]], [0.0, 0.0])  # mean 0, log σ = 0
    state = dataclasses.replace(
        state,
        actor=dataclasses.replace(state.actor, params=zero),
        target=(Q, SEVEN),
    )
    batch = transitions(
        reward=[1.0, 2.0], next_obs=[[1.0], [5.0]], terminated=[False, False]
    )
    got = sac.target(state, batch, jnp.zeros((2, 1)))
    # a′ = tanh 0 = 0,  log π = −½ log 2π − log(1 − 0²) = −0.9189385
    # row 0: min(2 + 1, 7) = 3     y = 1 + 0.5·(3 + 0.2·0.9189385)
    # row 1: min(10 + 1, 7) = 7    y = 2 + 0.5·(7 + 0.2·0.9189385)
    bonus = 0.2 * 0.9189385
    expected = [1 + 0.5 * (3 + bonus), 2 + 0.5 * (7 + bonus)]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_q_loss_sums_the_mean_squared_errors_of_all_critics():
    module = linear_state(ddpg).networks.critic
    batch = transitions(obs=[[1.0], [2.0]], action=[[0.5], [1.0]])
    loss, info = critics.q_loss((Q, SEVEN), batch, jnp.array([3.0, 10.0]), module)
    # Q₁: 2 + 2 + 1 = 5, 4 + 4 + 1 = 9    errors 2, −1    mean square 2.5
    # Q₂: 7, 7                            errors 4, −3    mean square 12.5
    np.testing.assert_allclose(loss, 15.0, rtol=1e-6)
    np.testing.assert_allclose(info["Q1Vals"], [5.0, 9.0], rtol=1e-6)
    np.testing.assert_allclose(info["Q2Vals"], [7.0, 7.0], rtol=1e-6)


@pytest.mark.parametrize("algo", [ddpg, td3], ids=["ddpg", "td3"])
def test_deterministic_actor_loss_is_minus_the_first_critic(algo):
    state = linear_state(algo)
    batch = transitions(obs=[[1.0], [3.0]])
    loss, _ = algo.actor_loss(HALF, (Q, SEVEN), batch, state.networks)
    # −mean(2·1 + 4·0.5 + 1, 2·3 + 4·0.5 + 1) = −(5 + 9)/2
    np.testing.assert_allclose(loss, -7.0, rtol=1e-6)


def test_sac_actor_loss_is_entropy_minus_the_lowest_critic():
    state = linear_state(sac)
    zero = linear("trunk", [[0.0, 0.0]], [0.0, 0.0])
    batch = transitions(obs=[[1.0], [5.0]])
    loss, info = sac.actor_loss(
        zero, (Q, SEVEN), jnp.log(0.2), batch, jnp.zeros((2, 1)), state.networks
    )
    # row 0: 0.2·(−0.9189385) − min(3, 7)     row 1: 0.2·(−0.9189385) − min(11, 7)
    np.testing.assert_allclose(loss, -0.2 * 0.9189385 - 5, rtol=1e-6)
    np.testing.assert_allclose(info["LogPi"], [-0.9189385] * 2, rtol=1e-6)


def test_sac_temperature_loss_by_hand():
    loss, info = sac.entropy_loss(jnp.log(0.5), jnp.array([1.0, 3.0]), -1.0)
    # −mean(log 0.5·(1 − 1), log 0.5·(3 − 1)) = −log 0.5
    np.testing.assert_allclose(loss, -math.log(0.5), rtol=1e-6)
    np.testing.assert_allclose(info["Alpha"], 0.5, rtol=1e-6)


@pytest.mark.parametrize(("log_prob", "rises"), [(5.0, True), (-5.0, False)])
def test_sac_temperature_rises_when_entropy_is_below_its_target(log_prob, rises):
    grad = jax.grad(lambda x: sac.entropy_loss(x, jnp.array([log_prob]), -1.0)[0])(0.0)
    assert (grad < 0) == rises


def test_vpg_actor_loss_by_hand():
    state = linear_state(vpg, COIN)
    params = linear("logits", [[0.0, 0.0]], [math.log(0.75), math.log(0.25)])
    batch = transitions(action=[0, 1])
    loss, _ = vpg.actor_loss(params, state.networks, batch, jnp.array([2.0, -1.0]))
    # −(2 log 0.75 − log 0.25)/2
    expected = -(2 * math.log(0.75) - math.log(0.25)) / 2
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_trpo_surrogate_and_kl_by_hand():
    state = linear_state(trpo, COIN)
    params = linear("logits", [[0.0, 0.0]], [math.log(0.75), math.log(0.25)])
    old = Categorical(jnp.log(jnp.full((2, 2), 0.5)))
    batch = transitions(action=[0, 1])
    gain, kl = trpo.surrogate(
        params, state.networks, batch, old, jnp.array([2.0, -1.0])
    )
    # ratios 1.5 and 0.5: (1.5·2 − 0.5)/2 = 1.25
    # KL(old ‖ new) = ½ log(0.5/0.75) + ½ log(0.5/0.25)
    np.testing.assert_allclose(gain, 1.25, rtol=1e-6)
    expected = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    np.testing.assert_allclose(kl, expected, rtol=1e-5)


def ppo_sample(advantage):
    old = Categorical(jnp.log(jnp.full((2, 2), 0.5)))
    action, obs = jnp.array([0, 1]), jnp.zeros((2, 1))
    return ppo.Sample(obs, action, old, jnp.array(advantage), jnp.zeros(2))


def test_ppo_loss_clips_gains_and_not_losses():
    state = linear_state(ppo, COIN, clip_ratio=0.2)
    params = linear("logits", [[0.0, 0.0]], [math.log(0.75), math.log(0.25)])
    # ratios 1.5 and 0.5, clipped 1.2 and 0.8
    #   advantages  2, −1:  min(3, 2.4) + min(−0.5, −0.8) =  2.4 − 0.8
    #   advantages −2,  1:  min(−3, −2.4) + min(0.5, 0.8) = −3 + 0.5
    for advantage, expected in ([2.0, -1.0], -0.8), ([-2.0, 1.0], 1.25):
        sample = ppo_sample(advantage)
        loss, info = ppo.actor_loss(params, sample, state.networks, state.config)
        np.testing.assert_allclose(loss, expected, rtol=1e-6)
    np.testing.assert_allclose(info["ClipFrac"], 1.0)


def test_ppo_entropy_bonus_by_hand():
    state = linear_state(ppo, COIN, entropy_coef=0.1)
    params = linear("logits", [[0.0, 0.0]], [0.0, 0.0])
    loss, info = ppo.actor_loss(
        params, ppo_sample([1.0, 1.0]), state.networks, state.config
    )
    # ratios 1: −1 − 0.1·log 2
    np.testing.assert_allclose(loss, -1 - 0.1 * math.log(2), rtol=1e-6)
    np.testing.assert_allclose(info["LossPi"], -1.0, rtol=1e-6)


def test_value_loss_by_hand():
    module = linear_state(vpg).networks.critic
    params = linear("trunk", [[2.0]], [1.0])
    obs, target = jnp.array([[1.0], [2.0]]), jnp.array([0.0, 6.0])
    loss, _ = critics.value_loss(params, obs, target, module)
    # V = 3, 5    errors 3, −1    mean square 5
    np.testing.assert_allclose(loss, 5.0)


def check_gradient(loss, params):
    """`jax.grad` against central differences along random directions."""
    flat, unravel = jax.flatten_util.ravel_pytree(params)
    gradient = jax.flatten_util.ravel_pytree(jax.grad(loss)(params))[0]
    assert np.linalg.norm(gradient) > 1e-3
    for seed in range(3):
        direction = jax.random.normal(jax.random.key(seed), flat.shape)
        high, low = (loss(unravel(flat + d * direction)) for d in (1e-6, -1e-6))
        np.testing.assert_allclose(
            gradient @ direction, (high - low) / 2e-6, rtol=1e-4, atol=1e-7
        )


def test_gradients_of_all_losses_match_finite_differences():
    with jax.enable_x64(True):
        key = jax.random.key(0)
        draws = jax.random.normal(key, (16, 2))
        for algo in (vpg, trpo, ppo, ddpg, td3, sac):
            state = algo.init(key, SPEC, small_config(algo))
            params, networks = state.actor.params, state.networks
            batch = fake_batch(algo, key, lead=(16,))
            advantage, old = batch.reward, Gaussian(jnp.zeros((16, 2)), draws / 10)
            sample = ppo.Sample(batch.obs, batch.action, old, advantage, advantage)
            critic = state.critic.params
            actor_args = {
                vpg: (networks, batch, advantage),
                trpo: (networks, batch, old, advantage),
                ppo: (sample, networks, state.config),
                ddpg: (critic, batch, networks),
                td3: (critic, batch, networks),
                sac: (critic, jnp.log(0.2), batch, draws, networks),
            }[algo]
            loss = trpo.surrogate if algo is trpo else algo.actor_loss
            check_gradient(lambda p, f=loss, a=actor_args: f(p, *a)[0], params)
            if algo in (vpg, trpo, ppo):
                args = (batch.obs, advantage, networks.critic)
                critic_loss = critics.value_loss
            else:
                args = (batch, advantage, networks.critic)
                critic_loss = critics.q_loss
            check_gradient(lambda p, f=critic_loss, a=args: f(p, *a)[0], critic)
