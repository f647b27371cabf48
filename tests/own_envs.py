"""Environments of a user's own, registered by importing this module."""

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
