"""An environment that notes when its episodes end, for time_to_result.py.

A line per episode: seconds of the machine's clock, CPU seconds of the process, steps
and return. Only gymnasium is imported, so that every library can use it.
"""

import os
import time
from typing import Any

import gymnasium as gym


class Timed(gym.Wrapper):
    """Appends a line to `file` at the end of every episode."""

    def __init__(self, env: gym.Env, file: str) -> None:
        super().__init__(env)
        self.file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.steps, self.total = 0, 0.0

    def step(self, action: Any) -> tuple:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        self.total += float(reward)
        if terminated or truncated:
            times = f"{time.monotonic()} {time.process_time()}"
            os.write(self.file, f"{times} {self.steps} {self.total}\n".encode())
            self.steps, self.total = 0, 0.0
        return obs, reward, terminated, truncated, info


def make(env_id: str, file: str) -> gym.Env:
    return Timed(gym.make(env_id), file)
