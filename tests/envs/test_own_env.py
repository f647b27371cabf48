"""A user's own environments: their names, what is called, their spaces."""

import functools
import os
import subprocess

import gymnasium as gym
import numpy as np
import own_envs
import pytest

from jaxrl import envs
from jaxrl.envs import naming
from jaxrl.spaces import Discrete, EnvSpec, Image, MultiBinary, MultiDiscrete


def local():
    def make():
        return own_envs.Count()

    return make


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("Hopper-v4", "Hopper-v4"),
        (own_envs.make_pendulum, "own_envs:make_pendulum"),
        (own_envs.Count, "own_envs:Count"),
        (lambda: own_envs.Count(), "python:lambda"),
        (local(), "python:make"),
        (functools.partial(own_envs.Count, length=2), "python:Count"),
        (own_envs.Count(), "python:Count"),
    ],
)
def test_what_can_be_found_again_is_named(env, name):
    assert envs.name_of(env) == name


def test_a_function_of_the_started_script_has_no_name(monkeypatch):
    monkeypatch.setattr(own_envs.make_pendulum, "__module__", "__main__")
    assert envs.name_of(own_envs.make_pendulum) == "python:make_pendulum"


def test_a_function_that_was_replaced_has_no_name(monkeypatch):
    before = own_envs.make_pendulum
    monkeypatch.setattr(own_envs, "make_pendulum", lambda: None)
    assert envs.name_of(before) == "python:make_pendulum"


def test_a_name_calls_the_function_with_its_arguments():
    made = envs.make("own_envs:make_pendulum", 1, 0, 1000, {"limit": 3})
    ends = [bool(made.step(np.zeros((1, 1), np.float32)).truncated[0]) for _ in "abc"]
    assert ends == [False, False, True]


def test_a_name_may_be_a_class_or_an_id():
    for name in ("own_envs:Count", "own_envs:Count-v0"):
        assert envs.make(name, 1, 0, 10, {"length": 4}).spec.obs_size == 2


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("os:system", {"command": "touch harm"}),
        ("subprocess:run", {"args": ["touch", "harm"]}),
        ("jaxrl.files:write_atomically", {"path": "harm", "text": ""}),
        ("numpy:save", {"file": "harm", "arr": 0}),
        ("own_envs:os.system", {"command": "touch harm"}),
        ("own_envs:sys.exit", {}),
    ],
)
def test_a_strangers_name_calls_nothing_that_makes_no_environment(
    name, kwargs, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="not called"):
        envs.make(name, 1, 0, 10, kwargs)
    assert not os.listdir(tmp_path)


def test_an_installed_function_is_called_if_it_says_that_it_makes_one():
    made = envs.make("gymnasium:make", 1, 0, 10, {"id": "CartPole-v1"})
    assert made.spec == EnvSpec(4, Discrete(2))
    with pytest.raises(ValueError, match="not called"):
        naming.factory_in(subprocess, "run")


@pytest.mark.parametrize(
    ("env", "count", "kwargs", "words"),
    [
        (lambda: 3, 1, {}, "must return"),
        (own_envs.make_pendulum, 1, {"sides": 3}, "sides"),
        (own_envs.make_shared, 2, {}, "twice"),
        (own_envs.Count(), 2, {}, "num_envs"),
        (own_envs.Count(), 1, {"length": 2}, "env_kwargs"),
        ("python:lambda", 1, {}, "from Python"),
        ("ALE/Pong-v5", 1, {}, "ale-py.*ale_py:ALE/Pong-v5"),
        ("ale_py_:ALE/Pong-v5", 1, {}, "cannot import"),
        ("dm_control/cheetah-run-v0", 1, {}, "shimmy:dm_control/"),
    ],
)
def test_what_makes_no_environment_is_refused_in_a_sentence(env, count, kwargs, words):
    with pytest.raises(ValueError, match=words):
        envs.make(env, count, 0, 10, kwargs)


@pytest.mark.parametrize("env", [3, gym.make_vec("CartPole-v1", num_envs=2)])
def test_what_is_no_environment_is_refused_in_a_sentence(env):
    with pytest.raises(ValueError, match="callable"):
        envs.name_of(env)


def test_an_instance_is_not_closed():
    env = own_envs.Count()
    env.close = lambda: pytest.fail("closed")
    envs.make(env, 1, 0, 10).close()


# Spaces


def test_mixed_observations_are_flattened_as_gymnasium_does():
    made = envs.make("own_envs:Mixed", 1, 3, 100)
    (env,) = made.envs
    assert made.spec.obs_size == 3 + 2 + 5 + 2
    assert made.spec.action == MultiDiscrete((3, 2), start=(1, 0))
    flat = gym.wrappers.FlattenObservation(own_envs.Mixed())
    seed = int(np.random.SeedSequence(3).generate_state(1)[0])
    expected, _ = flat.reset(seed=seed)
    np.testing.assert_array_equal(made.obs[0], expected.astype(np.float32))
    after = made.step(np.array([[0, 1]]))  # the environment checks its own action
    expected, *_ = flat.step(np.array([1, 1]))
    np.testing.assert_array_equal(after.next_obs[0], expected.astype(np.float32))
    assert env.steps == 1


def test_a_discrete_observation_is_one_hot():
    made = envs.make("FrozenLake-v1", 1, 0, 100)
    assert made.obs.tolist() == [[1.0] + [0.0] * 15]


def test_switches_have_the_environments_shape():
    made = envs.make("own_envs:Switches", 2, 0, 100)
    assert made.spec.action == MultiBinary(6)
    made.step(np.array([[0, 1, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]]))
    single = envs.single("own_envs:Switches", 100)
    single.reset(seed=0)
    single.step(np.array([0, 1, 0, 1, 1, 1]))


def test_an_observation_without_a_fixed_size_is_refused():
    env = gym.Env()
    env.action_space = gym.spaces.Discrete(2)
    env.observation_space = gym.spaces.Sequence(gym.spaces.Discrete(2))
    with pytest.raises(ValueError, match="fixed size"):
        envs.spec_of(env)


@pytest.mark.parametrize(
    ("space", "image"),
    [
        (gym.spaces.Box(0, 255, (84, 84, 3), np.uint8), Image((84, 84, 3))),
        (gym.spaces.Box(0, 255, (4, 84, 84), np.uint8), Image((4, 84, 84), True)),
        (
            gym.spaces.Box(0, 1, (10, 10, 1)),
            Image((10, 10, 1), high=1.0, dtype="float32"),
        ),
        (gym.spaces.Box(0, 255, (84, 84), np.uint8), Image((84, 84, 1))),
        (gym.spaces.Box(0, 9, (84, 84), np.uint8), None),  # a board
        (gym.spaces.Box(0, 255, (3, 3), np.uint8), None),
        (gym.spaces.Box(0, 1, (2, 3, 4)), None),
        (gym.spaces.Box(-1, 1, (10, 10, 3)), None),
        (gym.spaces.Box(0, 255, (100,), np.uint8), None),
    ],
)
def test_images_are_recognised(space, image):
    env = gym.Env()
    env.action_space, env.observation_space = gym.spaces.Discrete(2), space
    assert envs.spec_of(env).image == image
    env.observation_space = gym.spaces.Dict({"a": space})
    assert envs.spec_of(env).image_part == (image is not None)


def test_a_stack_of_colour_images_is_not_taken_for_a_vector():
    env = gym.Env()
    env.action_space = gym.spaces.Discrete(2)
    env.observation_space = gym.spaces.Box(0, 255, (4, 84, 84, 3), np.uint8)
    spec = envs.spec_of(env)
    assert spec.image is None
    assert spec.image_part


def test_a_name_that_the_module_does_not_have_says_so():
    with pytest.raises(ValueError, match="own_envs has no"):
        envs.make("own_envs:nothing", 1, 0, 100)


def test_an_image_stays_uint8_in_a_rollout():
    made = envs.make("own_envs:Picture", 2, 0, 100)
    assert made.obs.dtype == np.uint8
    assert made.step(np.zeros((2, 2), int)).next_obs.dtype == np.uint8
