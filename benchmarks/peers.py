"""One measurement of Stable-Baselines3 or SBX for speed.py; writes a number to a file.

    python peers.py SIDE CASE FILE    # with the Python of the peers' environment

The clock starts with the first rollout after `warmup` steps and stops after the last
update.
"""

import importlib
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise


class Clock(BaseCallback):
    """Measures steps per second after the warm-up."""

    def __init__(self, warmup: int) -> None:
        super().__init__()
        self.warmup, self.start, self.rate = warmup, None, 0.0

    def _on_rollout_start(self) -> None:
        if self.start is None and self.num_timesteps >= self.warmup:
            self.start = time.perf_counter(), self.num_timesteps

    def _on_training_end(self) -> None:
        start, steps = self.start
        self.rate = (self.num_timesteps - steps) / (time.perf_counter() - start)

    def _on_step(self) -> bool:
        return True


def build(side: str, case: dict[str, Any]) -> Any:
    """The peer's model for this case."""
    torch_side = "sb3_contrib" if case["algo"] == "trpo" else "stable_baselines3"
    module = importlib.import_module("sbx" if side == "sbx" else torch_side)
    env = make_vec_env(case["env"], case["settings"].get("num_envs", 1))
    arguments = dict(case["arguments"])
    if case["algo"] in ("td3", "ddpg"):
        zeros = np.zeros(env.action_space.shape)
        arguments["action_noise"] = NormalActionNoise(zeros, zeros + 0.1)
    return getattr(module, case["algo"].upper())("MlpPolicy", env, **arguments)


def peak_memory(model: Any, steps: int) -> float:
    """In MB; the replay buffer is filled first, so that all its pages are in memory."""
    for value in vars(model.replay_buffer).values():
        if isinstance(value, np.ndarray):
            value.fill(0)
    model.learn(steps)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main() -> None:
    side, case = sys.argv[1], json.loads(sys.argv[2])
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model, clock = build(side, case), Clock(case["warmup"])
    if case["measure"] == "memory":
        number = peak_memory(model, case["steps"])
    else:
        model.learn(case["steps"], callback=clock)
        number = clock.rate
    Path(sys.argv[3]).write_text(f"{number}\n")


if __name__ == "__main__":
    main()
