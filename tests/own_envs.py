"""Environments of a user's own, registered by importing this module."""

import gymnasium as gym
import numpy as np


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
