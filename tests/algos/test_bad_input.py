"""Input validation: mistakes end in one sentence that says what to do."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import SPEC, algorithms, fake_batch, is_on_policy, small_config

from jaxrl import algos, envs
from jaxrl.algos import ppo, sac
from jaxrl.algos.presets import preset
from jaxrl.envs.jax import PROBES
from jaxrl.training import fused
from jaxrl.types import Box, EnvSpec, OffPolicy


class Space(gym.Env):
    """An environment with these spaces and nothing else."""

    def __init__(self, observation, action):
        self.observation_space, self.action_space = observation, action


BOX = gym.spaces.Box(-1, 1, (3,))


def refusal(function, *args, kind=ValueError):
    with pytest.raises(kind) as caught:
        function(*args)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert not sentence.endswith(".")
    return sentence


def test_sac_refuses_discrete_actions(key):
    spec = envs.spec_of(Space(BOX, gym.spaces.Discrete(4)))
    sentence = refusal(sac.init, key, spec)
    assert "4 discrete actions" in sentence
    assert "vpg, trpo or ppo" in sentence


def test_an_observation_without_a_fixed_size_is_refused():
    sentence = refusal(envs.spec_of, Space(gym.spaces.Sequence(BOX), BOX))
    assert "Sequence" in sentence
    assert "Dict" in sentence


def test_other_action_spaces_are_refused():
    sentence = refusal(envs.spec_of, Space(BOX, gym.spaces.Text(3)))
    assert "Discrete" in sentence
    assert "Text" in sentence


def test_whole_numbers_in_a_box_are_refused():
    whole = gym.spaces.Box(0, 9, (2,), np.int64)
    assert "real Box" in refusal(envs.spec_of, Space(BOX, whole))


def test_a_name_in_place_of_an_environment_is_refused():
    sentence = refusal(envs.spec_of, "CartPole-v1", kind=TypeError)
    assert "gymnasium.make" in sentence


@pytest.mark.parametrize("size", [0, -1, 2.5, "3", None, True])
def test_an_observation_has_at_least_one_number(size):
    assert "obs_size is" in refusal(EnvSpec, size, Box((-1.0,), (1.0,)))


def test_a_space_of_gymnasium_in_a_spec_is_refused():
    sentence = refusal(EnvSpec, 3, BOX)
    assert "gymnasium.spaces.box.Box" in sentence
    assert "spec_of" in sentence


@algorithms
def test_an_environment_in_place_of_its_spec_is_refused_with_the_solution(algo, key):
    sentence = refusal(algo.init, key, Space(BOX, BOX), kind=TypeError)
    assert "jaxrl.types.EnvSpec" in sentence
    assert "test_bad_input.Space" in sentence
    assert "jaxrl.envs.spec_of(env)" in sentence


@algorithms
def test_a_dict_observation_is_refused_by_init_too(algo, key):
    sentence = refusal(algo.init, key, gym.spaces.Dict(a=BOX), kind=TypeError)
    assert "spec_of" in sentence


@algorithms
def test_unbounded_actions_are_refused_by_those_who_need_bounds(algo, key):
    spec = EnvSpec(3, Box((-np.inf, -1.0), (np.inf, 1.0)))
    if is_on_policy(algo):
        algo.init(key, spec, small_config(algo))
    else:
        assert "bounded" in refusal(algo.init, key, spec)


@algorithms
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gamma", 1.5),
        ("gamma", float("nan")),
        ("gamma", "0.9"),
        ("hidden", (64, 0)),
        ("hidden", 64),
        ("activation", "sigmoid"),
        ("normalize_obs", 1),
    ],
)
def test_a_setting_out_of_range_is_refused_with_its_rule(algo, key, name, value):
    sentence = refusal(algo.init, key, SPEC, algo.Config(**{name: value}))
    short = algo.__name__.rpartition(".")[2]
    assert sentence.startswith(f"{short}.Config: {name} is {value!r}, but must be ")
    assert "the default is" in sentence


def test_all_mistakes_are_named_at_once(key):
    sentence = refusal(sac.init, key, SPEC, sac.Config(gamma=-1, lr=0, num_critics=1))
    for words in ("gamma is -1", "lr is 0", "num_critics is 1"):
        assert words in sentence


def test_the_wrong_algorithms_settings_are_refused(key):
    sentence = refusal(sac.init, key, SPEC, ppo.Config(), kind=TypeError)
    assert "sac.Config" in sentence


@algorithms
def test_a_batch_of_the_wrong_rank_is_refused(algo, key):
    state = algo.init(key, SPEC, small_config(algo))
    lead = (16,) if is_on_policy(algo) else (8, 4)
    sentence = refusal(algo.update, state, fake_batch(algo, key, lead=lead))
    assert " has shape" in sentence


@algorithms
@pytest.mark.parametrize("field", ["obs", "action", "reward", "next_obs", "terminated"])
def test_a_field_that_would_be_broadcast_is_refused(algo, key, field):
    state = algo.init(key, SPEC, small_config(algo))
    batch = fake_batch(algo, key)
    broken = batch._replace(**{field: getattr(batch, field)[:1]})
    assert "has shape" in refusal(algo.update, state, broken)


@algorithms
def test_actions_of_the_wrong_rank_or_size_are_refused(algo, key):
    state = algo.init(key, SPEC, small_config(algo))
    batch = fake_batch(algo, key)
    with pytest.raises(ValueError, match="shape"):
        algo.update(state, batch._replace(action=batch.action[..., 0]))


@algorithms
def test_an_empty_batch_is_refused(algo, key):
    state = algo.init(key, SPEC, small_config(algo))
    empty = jax.tree.map(lambda x: x[:0], fake_batch(algo, key))
    assert "at least one" in refusal(algo.update, state, empty)


@algorithms
def test_a_plain_tuple_is_not_a_batch(algo, key):
    state = algo.init(key, SPEC, small_config(algo))
    batch = tuple(fake_batch(algo, key))
    assert "Transition" in refusal(algo.update, state, batch, kind=TypeError)


def test_several_values_for_one_setting_are_refused(key):
    rates = jnp.array([1e-3, 1e-4])
    assert "lr is" in refusal(sac.init, key, SPEC, sac.Config(lr=rates))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_envs": 64}, "multiple of num_envs"),
        ({"steps_per_epoch": 75}, "multiple of update_every"),
        ({"steps_per_epoch": "100"}, "steps_per_epoch is '100'"),
        ({"num_envs": 0}, "num_envs is 0"),
    ],
)
def test_data_that_would_leave_steps_out_is_refused(key, changes, words):
    data = OffPolicy(**{"steps_per_epoch": 100} | changes)
    sentence = refusal(fused.train, key, sac, PROBES["both"], None, data)
    assert words in sentence


def test_ppo_refuses_more_minibatches_than_steps(key):
    state = ppo.init(key, SPEC, ppo.Config(minibatches=9))
    sentence = refusal(ppo.update, state, fake_batch(ppo, key))
    assert "9 minibatches" in sentence


def test_unknown_names_are_refused_with_those_that_are_known():
    assert "vpg, trpo, ppo, ddpg, td3, sac" in refusal(algos.get, "dqn")
    assert "spinup" in refusal(preset, "spin", "sac")
    assert "vpg, trpo, ppo, ddpg, td3, sac" in refusal(preset, "spinup", "dqn")


@algorithms
def test_a_setting_under_vmap_has_no_value_to_refuse(algo, key):
    def start(gamma):
        return algo.init(key, SPEC, small_config(algo, gamma=gamma)).config.gamma

    np.testing.assert_allclose(jax.vmap(start)(jnp.array([0.5, 0.9])), [0.5, 0.9])
