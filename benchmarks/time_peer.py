"""One training of Stable-Baselines3 or SBX for time_to_result.py.

    python time_peer.py SIDE TASK SEED FILE    # with the Python of the peers

Its episodes are noted in FILE; see timed_env.py.
"""

import importlib
import json
import os
import sys
from typing import Any

import timed_env
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


class TwoRates(SAC):
    """SAC with another learning rate for the policy, as CleanRL has it."""

    policy_rate = 0.0

    def _update_learning_rate(self, optimizers: Any) -> None:
        super()._update_learning_rate(optimizers)
        for group in self.actor.optimizer.param_groups:
            group["lr"] = self.policy_rate


def falling(value: float) -> Any:
    """From `value` to 0 linearly over the run."""
    return lambda remaining: remaining * value


def activation(side: str, name: str) -> Any:
    if side == "sbx":
        return getattr(importlib.import_module("flax.linen"), name)
    return {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}[name]


def build(side: str, task: dict[str, Any], seed: int, file: str) -> Any:
    """The peer's model with the settings of this side."""
    arguments = dict(task["peers"][side])
    count = arguments.pop("n_envs", 1)
    env: Any = DummyVecEnv([lambda: timed_env.make(task["env"], file)] * count)
    if arguments.pop("normalize", False):
        env = VecNormalize(env, gamma=arguments["gamma"])
    for name in arguments.pop("falling", ()):
        arguments[name] = falling(arguments[name])
    if networks := arguments.get("policy_kwargs"):
        networks["activation_fn"] = activation(side, networks["activation_fn"])
    module = importlib.import_module("sbx" if side == "sbx" else "stable_baselines3")
    kind = getattr(module, task["algo"].upper())
    if policy_rate := arguments.pop("policy_rate", None):
        kind, TwoRates.policy_rate = TwoRates, policy_rate
    return kind("MlpPolicy", env, seed=seed, **arguments)


def main() -> None:
    side, task, seed, file = sys.argv[1:]
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    description = json.loads(task)
    steps = description["peers"][side].pop("steps", description["steps"])
    build(side, description, int(seed), file).learn(steps)


if __name__ == "__main__":
    main()
