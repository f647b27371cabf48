"""Adapters of JAX environments, against the step functions of their packages."""

import importlib.util
import os
import subprocess
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.envs import jax_adapters, jax_batch
from jaxrl.spaces import Box

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
