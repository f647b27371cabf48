"""PPO learns from pixels: a convolutional encoder is the default for images.

python examples/images.py
"""

import tempfile
from typing import Any

import gymnasium
import numpy as np

import jaxrl


class Catch(gymnasium.Env):
    """A ball falls through a 10x10 image; a paddle at its bottom catches it."""

    observation_space = gymnasium.spaces.Box(0, 255, (10, 10, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)  # left, stay, right

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.row, self.column = 0, int(self.np_random.integers(10))
        self.paddle = int(self.np_random.integers(1, 9))  # three pixels wide
        return self.picture(), {}

    def picture(self) -> np.ndarray:
        image = np.zeros((10, 10, 1), np.uint8)
        image[self.row, self.column] = 255
        image[9, self.paddle - 1 : self.paddle + 2] = 255
        return image

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.paddle = min(max(self.paddle + int(action) - 1, 1), 8)
        self.row += 1
        over = self.row == 9
        caught = abs(self.column - self.paddle) <= 1
        return self.picture(), float(2 * caught - 1) * over, over, False, {}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as out:
        result = jaxrl.train(
            "ppo",
            Catch,
            steps=20_480,
            num_envs=8,
            minibatches=8,
            train_pi_iters=4,
            train_v_iters=4,
            pi_lr=1e-3,
            vf_lr=1e-3,
            out=out,
            screen=False,
        )
        for row in result.history:
            print(f"{row['TotalEnvInteracts']:6.0f} steps   {row['AverageEpRet']:.2f}")
        policy, env = jaxrl.load(result.directory, env=Catch)
        print(policy)
        mean, _ = jaxrl.evaluate_policy(policy, env, num_test_episodes=100)
        print(f"greedy return {mean:.2f}")
