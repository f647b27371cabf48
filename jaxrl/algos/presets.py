"""Named sets of settings that replace the defaults in the algorithms' files.

`spinup` has the hyperparameters of Spinning Up 0.2, without normalisation of
observations and returns. `jax` has settings for many cheap environments, which runs in
JAX environments start from unless they name another preset
(benchmarks/JAX_DEFAULTS.md).
"""

import math
import typing
from typing import Any

from jaxrl import algos

if typing.TYPE_CHECKING:
    from jaxrl.types import OffPolicy, OnPolicy

from jaxrl.errors import unknown

PLAIN: dict[str, Any] = {
    "normalize_obs": False,
    "normalize_returns": False,
    "initializer": "uniform",
}
ON_POLICY: dict[str, Any] = PLAIN | {"steps_per_epoch": 4000, "epochs": 50}
OFF_POLICY: dict[str, Any] = {"steps_per_epoch": 4000, "epochs": 100, "batch_size": 100}
JAX_ON_POLICY: dict[str, Any] = {
    "num_envs": 64,
    "steps_per_epoch": 4096,
    "epochs": 250,
}
JAX_OFF_POLICY: dict[str, Any] = {
    "num_envs": 64,
    "update_every": 64,
    "updates_per_step": 0.25,
    "batch_size": 128,
    "start_steps": 1000,
    "steps_per_epoch": 5120,
}

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "spinup": {
        "vpg": {"pi_lr": 3e-4} | ON_POLICY,
        "trpo": ON_POLICY,
        "ppo": {
            "lam": 0.97,
            "vf_lr": 1e-3,
            "lr_decay": 0.0,
            "train_pi_iters": 80,
            "train_v_iters": 80,
            "minibatches": 1,
            "refresh_advantages": False,
            "target_kl": 0.01,
            "max_grad_norm": math.inf,
        }
        | ON_POLICY,
        "ddpg": OFF_POLICY,
        "td3": {"pi_lr": 1e-3, "q_lr": 1e-3} | OFF_POLICY,
        "sac": {"lr": 1e-3, "alpha": 0.2, "learn_alpha": False} | OFF_POLICY,
    },
    "jax": {
        "vpg": JAX_ON_POLICY | {"train_v_iters": 20},
        "trpo": JAX_ON_POLICY | {"train_v_iters": 20},
        "ppo": JAX_ON_POLICY
        | {
            "minibatches": 16,
            "train_pi_iters": 4,
            "train_v_iters": 4,
            "pi_lr": 1e-3,
            "vf_lr": 1e-3,
        },
        "ddpg": JAX_OFF_POLICY,
        "td3": JAX_OFF_POLICY,
        "sac": JAX_OFF_POLICY,
    },
}
DEFAULT = "default"  # the settings in the algorithms' files
AUTO = "auto"  # by the environment
CHOICES = (AUTO, DEFAULT, *PRESETS)
FAMILIES = dict.fromkeys(("phys2d", "gymnax", "brax", "playground"), "jax")
"""Presets of environments, by the prefix of their names."""
BY_FAMILY = "; ".join(
    f"{name} for " + ", ".join(f"{x}/" for x in FAMILIES if FAMILIES[x] == name)
    for name in dict.fromkeys(FAMILIES.values())
)


def for_env(env: str) -> str:
    """The preset of an environment, by the prefix of its name."""
    family, slash, _ = env.partition("/")
    return FAMILIES.get(family, DEFAULT) if slash else DEFAULT


def resolve(name: str, algo: str, env: str) -> str:
    """The preset that `name` is; `auto` depends on the environment.

    A user's file has only its own defaults.
    """
    if name != AUTO:
        return name
    return DEFAULT if algos.is_file(algo) else for_env(env)


def changes(name: str, algo: str) -> dict[str, Any]:
    """The settings of `algo` that the preset `name` changes; `default` changes none."""
    if name == DEFAULT:
        return {}
    if name not in PRESETS:
        raise ValueError(unknown("preset", str(name), CHOICES))
    if algo not in PRESETS[name]:
        raise ValueError(
            f"{name} has no settings for {algo!r}; it has {', '.join(PRESETS[name])}"
        )
    return PRESETS[name][algo]


def preset(name: str, algo: str) -> "tuple[Any, OnPolicy | OffPolicy]":
    """The `Config` and the way of gathering data that `name` means for `algo`."""
    changed = changes(name, algo)
    module = algos.get(algo)
    data = {key: x for key, x in changed.items() if hasattr(module.DATA, key)}
    config = {key: x for key, x in changed.items() if key not in data}
    return module.Config(**config), type(module.DATA)(**vars(module.DATA) | data)
