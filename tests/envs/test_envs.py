"""Specs of gymnasium's environments, and the probes themselves."""

import subprocess
import sys

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import envs
from jaxrl.envs.jax import PROBES
from jaxrl.types import Box, Discrete, EnvSpec


def test_the_spec_of_a_continuous_environment_keeps_its_bounds():
    assert envs.spec_of(gym.make("Pendulum-v1")) == EnvSpec(3, Box((-2.0,), (2.0,)))


def test_the_spec_of_a_discrete_environment_counts_its_actions():
    assert envs.spec_of(gym.make("CartPole-v1")) == EnvSpec(4, Discrete(2))


def test_the_spec_of_a_vector_environment_is_that_of_one():
    vector = gym.make_vec("Pendulum-v1", num_envs=3)
    assert envs.spec_of(vector) == envs.spec_of(gym.make("Pendulum-v1"))


def test_observations_of_any_rank_are_flattened():
    env = gym.Env()
    env.observation_space = gym.spaces.Box(0, 1, (2, 3, 4))
    env.action_space = gym.spaces.Discrete(3, start=5)
    spec = envs.spec_of(env)
    assert spec == EnvSpec(24, Discrete(3, start=5))
    assert spec.action.scale(jnp.array(2)) == 7


def test_a_spec_can_be_a_static_argument():
    spec = envs.spec_of(gym.make("Pendulum-v1"))
    size = jax.jit(lambda spec: jnp.zeros(spec.obs_size), static_argnums=0)(spec)
    assert size.shape == (3,)


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_gives_its_documented_rewards(probe, key):
    env = PROBES[probe]
    state, obs = env.reset(key)
    sign, rewards, over = float(obs[0]), [], False
    while not over:
        step = env.step(state, jnp.full(1, 0.25), key)
        state, over = step.state, bool(step.terminated)
        rewards.append(float(step.reward))
    expected = {
        "constant": [1],
        "observed": [sign],
        "delayed": [0, 1],
        "chosen": [-((0.25 - 0.5) ** 2)],
        "both": [-((0.25 - sign / 2) ** 2)],
    }[probe]
    np.testing.assert_allclose(rewards, expected)
    assert sign in ((-1, 1) if probe in ("observed", "both") else (0,))


UNSTABLE = """
import sys
import numpy as np
from jaxrl import envs

if sys.argv[1] == "batch":
    batch = envs.make("Hopper-v4", 1, 0, 100)
    env, step = batch.envs[0].unwrapped, lambda: batch.step(np.full((1, 3), 1e30))
else:
    single = envs.single("Hopper-v4", 100)
    single.reset(seed=0)
    env, step = single.unwrapped, lambda: single.step(np.full(3, 1e30))
for _ in range(2):
    env.set_state(env.data.qpos, env.data.qvel * 0 + 1e12)
    step()
    env.reset()
"""


@pytest.mark.parametrize("kind", ["batch", "single"])
def test_mujoco_leaves_no_log_file_in_the_users_directory(tmp_path, kind):
    # In a separate process, because MuJoCo has one handler for the whole process.
    words = [sys.executable, "-W", "error:::jaxrl", "-c", UNSTABLE, kind]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("unstable") == 1
    assert not list(tmp_path.iterdir())
