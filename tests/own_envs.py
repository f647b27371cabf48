"""Environments as a user would write them, registered by importing this module."""

import os
import signal
import sys
import time

import gymnasium as gym
import numpy as np

from jaxrl.processes import ranks


class Count(gym.Env):
    """Observes how many steps were taken; ends as `length` and `kind` say."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2, 1))
    action_space = gym.spaces.Box(-2, 6, (1,))

    def __init__(self, length=5, kind="terminated", fault=None, chance=False, **_):
        self.length, self.kind, self.fault = length, kind, fault
        self.unseeded = np.random.default_rng() if chance else None

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def _obs(self):
        noise = 0 if self.unseeded is None else self.unseeded.uniform()
        return np.array([[self.steps], [noise]], np.float32)

    def step(self, action):
        assert action.shape == (1,)
        self.steps += 1
        over = self.steps >= self.length
        obs, reward = self._obs(), float(action[0])
        if self.fault == "reward" and self.steps == 3:
            reward = float("nan")
        if self.fault == "observation" and self.steps == 3:
            obs[0] = np.inf
        return (
            obs,
            reward,
            over and self.kind == "terminated",
            over and (self.kind == "truncated"),
            {},
        )


gym.register("Count-v0", Count, disable_env_checker=True)


class Trouble(Count):
    """In one of several processes, at its 50th step, something goes wrong."""

    def __init__(self, trouble="raise", rank=1, **kwargs):
        super().__init__(**kwargs)
        self.due = 50 if ranks.rank() == rank else None
        self.trouble = trouble

    def step(self, action):
        if self.due is not None:
            self.due -= 1
            if self.due == 0:
                TROUBLES[self.trouble]()
        return super().step(action)


def stumble():
    raise RuntimeError("a stone on the way")


TROUBLES = {
    "raises": stumble,
    "exits": lambda: sys.exit(0),
    "vanishes": lambda: os._exit(0),
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "sleeps": lambda: time.sleep(600),
    "is stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}

gym.register("Trouble-v0", Trouble, disable_env_checker=True)


class SlowReset(Count):
    """On rank 1, its second reset takes longer than it takes to notice a dead rank."""

    resets = 0

    def reset(self, seed=None, options=None):
        self.resets += 1
        if self.resets == 2 and ranks.rank() == 1:
            time.sleep(9)
        return super().reset(seed=seed, options=options)


gym.register("SlowReset-v0", SlowReset, disable_env_checker=True)


class Mixed(gym.Env):
    """Observes a Dict of several spaces; pays for repeating its first entry."""

    observation_space = gym.spaces.Dict(
        {
            "choice": gym.spaces.Discrete(3, start=1),
            "pair": gym.spaces.Tuple(
                (gym.spaces.Box(-1, 1, (2,)), gym.spaces.MultiDiscrete([2, 3]))
            ),
            "switches": gym.spaces.MultiBinary(2),
        }
    )
    action_space = gym.spaces.MultiDiscrete([3, 2], start=[1, 0])

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._draw(), {}

    def _draw(self):
        rng = self.np_random
        pair = (
            rng.uniform(-1, 1, 2).astype(np.float32),
            rng.integers([2, 3]),
        )
        self.choice = rng.integers(1, 4)
        switches = rng.integers(2, size=2).astype(np.int8)
        return {"choice": self.choice, "pair": pair, "switches": switches}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.steps += 1
        reward = float(np.ravel(action)[0] == self.choice)
        return self._draw(), reward, self.steps >= 10, False, {}


class Switches(Mixed):
    """The same with switches in two rows as actions."""

    action_space = gym.spaces.MultiBinary((2, 3))


class Picture(Mixed):
    """Observes a small image [H, W, C], or [C, H, W]; the same actions."""

    def __init__(self, shape=(10, 10, 1), render_mode=None):
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self.render_mode = render_mode

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def _draw(self):
        self.choice = self.np_random.integers(1, 4)
        shape = self.observation_space.shape
        return self.np_random.integers(0, 256, shape).astype(np.uint8)

    def render(self):
        return np.zeros((32, 32, 3), np.uint8)


def make_pendulum(render_mode=None, limit=20):
    """A function with wrappers, as Spinning Up's `env_fn`."""
    env = gym.make("Pendulum-v1", render_mode=render_mode)
    env = gym.wrappers.TransformReward(env, lambda reward: reward / 10)
    return gym.wrappers.TimeLimit(env, limit)


def make_shared():
    """A mistake: always the same environment."""
    return SHARED


SHARED = Count()
