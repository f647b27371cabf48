"""Training in JAX environments, in one compiled program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import small_config

from jaxrl.algos import ppo, sac, vpg
from jaxrl.envs.jax import PROBES, Probe, Step
from jaxrl.training import fused, jax_episodes
from jaxrl.types import OffPolicy, OnPolicy

SHORT = OnPolicy(steps_per_epoch=32, num_envs=4, epochs=3)
REPLAY = OffPolicy(
    steps_per_epoch=20,
    epochs=3,
    num_envs=2,
    replay_size=64,
    batch_size=8,
    start_steps=10,
    update_after=20,
    update_every=10,
)


class Walk(Probe):
    """Never ends: obs 0, 1, 2, ... and reward 1."""

    def step(self, state, action, key):
        step, obs = state
        never = jnp.array(False)
        return Step((step + 1, obs + 1), obs + 1, jnp.ones(()), never, never)


WALK = Walk(lambda obs, action: jnp.ones(()))


def test_a_run_depends_on_its_key_only():
    train = jax.jit(
        lambda key: fused.train(key, ppo, PROBES["both"], small_config(ppo), SHORT)
    )
    one, same, other = (train(jax.random.key(seed))[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one["LossPi"], same["LossPi"])
    assert not np.array_equal(one["LossPi"], other["LossPi"])
    assert one["EpRet"].shape == (3,)


def test_runs_map_over_seeds_and_settings():
    def train(key, gamma):
        config = small_config(sac, gamma=gamma)
        return fused.train(key, sac, PROBES["delayed"], config, REPLAY)[1]["LossQ"]

    keys, gammas = jax.random.split(jax.random.key(0), 2), jnp.array([0.5, 0.99])
    together = jax.jit(jax.vmap(train))(keys, gammas)
    assert together.shape == (2, 3)
    alone = jax.jit(train)(keys[1], gammas[1])
    np.testing.assert_allclose(together[1], alone, rtol=1e-3)


def test_learning_rate_decays_over_the_run():
    _, history = fused.train(
        jax.random.key(0), ppo, PROBES["both"], small_config(ppo, pi_lr=0.3), SHORT
    )
    np.testing.assert_allclose(history["LearningRate"], [0.3, 0.2, 0.1], rtol=1e-5)


def test_updates_start_after_update_after_steps():
    late = OffPolicy(**vars(REPLAY) | {"update_after": 40})
    _, history = jax.jit(
        lambda key: fused.train(key, sac, PROBES["both"], small_config(sac), late)
    )(jax.random.key(0))
    # 20 steps an epoch: the first has no update, so its mean is NaN
    assert np.isnan(history["LossQ"]).tolist() == [True, False, False]


def roll(env, steps, max_ep_len, count=2):
    data = OnPolicy(
        steps_per_epoch=steps * count, num_envs=count, max_ep_len=max_ep_len
    )
    program = fused.make_program(vpg, env, data)
    carry = fused.begin(jax.random.key(0), program, small_config(vpg))
    carry = jax.jit(lambda carry: fused.advance(carry, program, steps))(carry)
    return carry.buffer.rows, carry.statistics.episodes


def test_a_time_limit_truncates_without_leaking_the_next_episode():
    rollout, episodes = roll(WALK, steps=7, max_ep_len=3)
    np.testing.assert_array_equal(rollout.obs[:, 0, 0], [0, 1, 2, 0, 1, 2, 0])
    np.testing.assert_array_equal(rollout.next_obs[:, 0, 0], [1, 2, 3, 1, 2, 3, 1])
    np.testing.assert_array_equal(rollout.truncated[:, 0], [0, 0, 1, 0, 0, 1, 0])
    assert not rollout.terminated.any()
    # two environments, two finished episodes each, of 3 steps and return 3
    for values, expected in zip(episodes, [4, 3, 0, 3, 3], strict=True):
        assert values.tolist() == [expected, expected]


def test_an_episode_that_terminates_at_the_time_limit_is_not_truncated():
    rollout, _ = roll(PROBES["delayed"], steps=4, max_ep_len=2)
    np.testing.assert_array_equal(rollout.terminated[:, 0], [0, 1, 0, 1])
    assert not rollout.truncated.any()


@pytest.mark.parametrize("algo", [ppo, sac], ids=["ppo", "sac"])
def test_the_cut_of_an_epoch_into_calls_changes_no_bit(algo):
    program = fused.make_program(algo, PROBES["both"], SHORT if algo is ppo else REPLAY)
    begin = jax.jit(lambda key: fused.begin(key, program, small_config(algo)))
    part = jax.jit(lambda carry, *cut: fused.part(carry, program, *cut))

    def two_epochs(*cuts):
        carry, rows = begin(jax.random.key(0)), []
        for cut in cuts:
            carry, _ = part(carry, cut, False)
            carry, row = part(carry, program.rounds - cut, True)
            rows.append(row)
        return jax.tree.leaves((carry, rows))

    whole, cut = two_epochs(0, 0), two_epochs(1, program.rounds)
    for one, other in zip(whole, cut, strict=True):
        if not jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            np.testing.assert_array_equal(one, other)


def test_greedy_episodes_end_at_the_end_of_each():
    program = fused.make_program(vpg, PROBES["delayed"], SHORT)
    state = vpg.init(jax.random.key(0), program.env.spec, small_config(vpg))
    played = jax_episodes.evaluate(state, program, 5, jax.random.key(1))
    # two steps each; the reward is the observation, 0 and then 1
    assert [float(x) for x in played["TestEpLen"]] == [5, 2, 0, 2, 2]
    assert [float(x) for x in played["TestEpRet"]] == [5, 1, 0, 1, 1]


@pytest.mark.parametrize("start_steps", [0, 10, 30])
def test_exactly_start_steps_actions_are_random(start_steps, monkeypatch):
    data = OffPolicy(**vars(REPLAY) | {"start_steps": start_steps, "epochs": 2})
    monkeypatch.setattr(sac, "act", lambda state, obs, key=None: jnp.full((2, 1), 2.0))
    kept = []
    monkeypatch.setattr(
        sac, "update", lambda state, batch, pmean=None: (state, {"Kept": jnp.zeros(())})
    )
    insert = fused.DeviceReplay.insert

    def record(replay, rollout):
        jax.debug.callback(lambda action: kept.append(action), rollout.action)
        return insert(replay, rollout)

    monkeypatch.setattr(fused.DeviceReplay, "insert", record)
    fused.train(jax.random.key(0), sac, PROBES["both"], small_config(sac), data)
    jax.effects_barrier()
    actions = np.concatenate([np.asarray(x).ravel() for x in kept])
    assert len(actions) == 40
    assert (actions != 2).sum() == start_steps
    assert (actions[start_steps:] == 2).all()
