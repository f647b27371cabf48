"""Adapters of JAX environments, against the step functions of their packages."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.phys2d.cartpole import CartPoleFunctional

from jaxrl.envs import jax_adapters, jax_batch, jax_finding
from jaxrl.envs.jax import Step
from jaxrl.spaces import Box, Discrete, EnvSpec

STEPS = 100


@pytest.fixture(autouse=True)
def others_may_promote_ranks():
    """As the packages do."""
    with jax.numpy_rank_promotion("allow"):
        yield


def actions(env, seed=0):
    """Random ones, as the environment takes them."""
    keys = jax.random.split(jax.random.key(seed), STEPS)
    space = env.spec.action
    if isinstance(space, Box):
        low, high = np.array(space.low), np.array(space.high)
        return [jax.random.uniform(k, low.shape, float, low, high) for k in keys]
    return [jax.random.randint(key, (), 0, space.n) for key in keys]


def assert_same_steps(env, theirs):
    """`theirs(state, action, key)` gives their state, obs, reward and end."""
    key = jax.random.key(1)
    state, obs = env.reset(key)
    assert obs.shape == (env.spec.obs_size,)
    step, their_step = jax.jit(env.step), jax.jit(theirs)
    other = state
    for i, action in enumerate(actions(env)):
        own_key = jax.random.fold_in(key, i)
        other, *expected = their_step(other, action, own_key)
        after = step(state, action, own_key)
        state = after.state
        got = (after.obs, after.reward, after.terminated)
        for one, two in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, jnp.ravel(two).reshape(one.shape), 1e-5)
        assert not after.truncated
        if after.terminated:
            break


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v0"])
def test_gymnasiums_functional_environments(name):
    env = jax_adapters.make(f"phys2d/{name}")
    inner = gymnasium.make(f"phys2d/{name}").unwrapped.func_env
    params = inner.default_params

    def step(state, action, key):
        action = jnp.reshape(action, inner.action_space.shape)
        step_key, obs_key = jax.random.split(key)
        after = inner.transition(state, action, step_key, params)
        reward = inner.reward(state, action, after, step_key, params)
        obs = inner.observation(after, obs_key, params)
        return after, obs, reward, inner.terminal(after, step_key, params)

    assert_same_steps(env, step)
    limits = {"CartPole-v1": 500, "Pendulum-v0": 200}
    assert env.time_limit == limits[name]


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Catch-bsuite"])
def test_gymnax(name):
    gymnax = pytest.importorskip("gymnax")
    env = jax_adapters.make(f"gymnax/{name}")
    inner, params = gymnax.make(name)

    def step(state, action, key):
        obs, after, reward, done, _ = inner.step_env(key, state, action, params)
        return after, obs, reward, done

    assert_same_steps(env, step)
    assert env.time_limit == params.max_steps_in_episode


def test_the_time_limit_of_gymnax_truncates():
    pytest.importorskip("gymnax")
    env = jax_adapters.make("gymnax/Pendulum-v1")
    envs = jax_batch.reset(env, 2, jax.random.key(0))
    step = jax.jit(
        lambda envs, key: jax_batch.step(envs, env, jnp.zeros((2, 1)), 200, key)
    )
    for i in range(200):
        envs, after = step(envs, jax.random.key(i))
        assert after.truncated.all() == (i == 199)
        assert not after.terminated.any()
    assert envs.ep_len.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["fast", "inverted_pendulum"])
def test_brax(name):
    pytest.importorskip("brax")
    env = jax_adapters.make(f"brax/{name}")

    def step(state, action, key):
        after = env.env.step(state, action)
        return after, after.obs, after.reward, after.done

    assert_same_steps(env, step)


@pytest.mark.parametrize("name", ["CartpoleBalance", "PendulumSwingup"])
def test_playground(name):
    registry = pytest.importorskip("mujoco_playground").registry
    env = jax_adapters.make(f"playground/{name}")
    inner = registry.load(name, config_overrides={"impl": "jax"})

    def step(state, action, key):
        after = inner.step(state, action)
        return after, after.obs, after.reward, after.done

    assert_same_steps(env, step)


PICTURES = """
import sys
from jaxrl.envs import jax_gym
env = jax_gym.make(sys.argv[1], {"render_mode": "rgb_array"})
env.reset(seed=0)
first = env.render()
for _ in range(10):
    env.step(env.action_space.high)
assert first.ndim == 3 and first.std() > 1
assert (first != env.render()).any()
"""


@pytest.mark.parametrize(
    ("module", "env_id"),
    [
        ("brax", "brax/inverted_pendulum"),
        ("mujoco_playground", "playground/CartpoleBalance"),
        ("gymnasium", "phys2d/Pendulum-v0"),
    ],
)
def test_pictures_show_the_state(module, env_id):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"needs {module}")
    command = [sys.executable, "-c", PICTURES, env_id]
    # MuJoCo reads it when it is imported.
    own = os.environ | {"MUJOCO_GL": "egl"}
    done = subprocess.run(command, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_making_an_environment_of_brax_warns_of_nothing(recwarn):
    pytest.importorskip("brax")
    jax_adapters.make("brax/inverted_pendulum")
    hidden = (DeprecationWarning, PendingDeprecationWarning)  # Python shows none
    assert not [x for x in recwarn if not issubclass(x.category, hidden)]


def test_every_start_is_drawn_and_none_is_cached():
    env = jax_adapters.make("phys2d/CartPole-v1")
    envs = jax_batch.reset(env, 8, jax.random.key(0))
    done = jnp.arange(8) % 2 == 0
    reset = jax.jit(lambda key: jax_batch.reset_where(done, envs, env, key))
    after, later = reset(jax.random.key(1)), reset(jax.random.key(2))
    np.testing.assert_array_equal(after.obs[1::2], envs.obs[1::2])
    starts = np.concatenate([envs.obs, after.obs[::2], later.obs[::2]])
    assert len(np.unique(starts, axis=0)) == 16


class Walk(NamedTuple):
    """A step to the left or right, whose results a test can change."""

    changes: tuple[tuple[str, Any], ...] = ()
    observe: Callable = lambda x: x[None]
    spec: EnvSpec = EnvSpec(1, Discrete(2))
    time_limit: int = 7

    def reset(self, key):
        x = jax.random.uniform(key)
        return x, self.observe(x)

    def step(self, state, action, key):
        x = state + 2 * action - 1
        true = Step(x, self.observe(x), x, jnp.abs(x) > 3, jnp.array(False))
        return true._replace(**{name: change(x) for name, change in self.changes})


def test_of_a_dict_of_observations_the_state_is_taken():
    env = jax_finding.from_object(Walk(observe=lambda x: {"state": x[None], "y": x}))
    _, obs = env.reset(jax.random.key(0))
    _, plain = Walk().reset(jax.random.key(0))
    assert obs == plain
    after = env.step(obs[0], jnp.array(1), jax.random.key(0))
    np.testing.assert_allclose(after.obs, plain + 1, 1e-6)
    assert jax_batch.time_limit(env, 100) == 7
    with pytest.raises(ValueError, match=r"dict of pixels.*'state'"):
        jax_finding.from_object(Walk(observe=lambda x: {"pixels": x[None]}))


class DictSpace(CartPoleFunctional):
    name = "state"

    @property
    def observation_space(self):
        return gymnasium.spaces.Dict({self.name: CartPoleFunctional.observation_space})

    def observation(self, state, rng, params=None):
        return {self.name: super().observation(state, rng, params)}


def test_of_a_functional_environments_dict_the_state_is_taken():
    env = jax_finding.from_object(DictSpace())
    assert env.spec.obs_size == 4
    assert env.reset(jax.random.key(0))[1].shape == (4,)
    with pytest.raises(ValueError, match=r"dict of pixels.*'state'"):
        jax_finding.from_object(DictSpace({"name": "pixels"}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reward": lambda x: x[None]}, r"reward must be one number.*\(1,\)"),
        ({"terminated": lambda x: x}, "terminated must be one bool.*float32"),
        ({"truncated": lambda x: x[None] > 0}, r"truncated must be one bool.*\(1,\)"),
        ({"reward": lambda x: 1.0 if x > 0 else 0.0}, "step failed in line .*compile"),
        ({"obs": lambda x: jnp.zeros(2)}, "obs_size 1"),
    ],
)
def test_a_step_that_does_not_fit_is_refused_in_a_sentence(changes, words):
    with pytest.raises(ValueError, match=words) as refused:
        jax_finding.from_object(Walk(tuple(changes.items())))
    assert "Walk" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_step_that_returns_no_step_is_refused():
    class Pair(Walk):
        def step(self, state, action, key):
            return state, state[None]

    with pytest.raises(ValueError, match=r"Step of state, obs.*returned a tuple"):
        jax_finding.from_object(Pair())


def test_parameters_of_gymnasiums_environments_are_set_or_refused():
    heavy = jax_adapters.make("phys2d/CartPole-v1", {"gravity": 100.0})
    usual = jax_adapters.make("phys2d/CartPole-v1")
    key = jax.random.key(0)
    states = [usual.reset(key)[0]] * 2
    for _ in range(3):
        states = [
            env.step(state, jnp.array(1), key).state
            for env, state in zip((usual, heavy), states, strict=True)
        ]
    assert not np.allclose(*states)
    with pytest.raises(ValueError, match="gravty"):
        jax_adapters.make("phys2d/CartPole-v1", {"gravty": 5.0})
    with pytest.raises(ValueError, match="failed"):
        jax_finding.find("phys2d/CartPole-v1", {"gravity": "abc"})
