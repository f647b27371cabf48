"""Environments: gymnasium and EnvPool on the host, and JAX environments."""

from collections.abc import Mapping
from typing import Any

import gymnasium

from jaxrl.envs import gym
from jaxrl.envs.gym import Environments, spec_of
from jaxrl.envs.pool import PREFIX, Pool

__all__ = ["is_foreign", "is_mujoco", "make", "misspelt", "single", "spec_of"]


def make(
    env_id: str,
    count: int,
    seed: int,
    max_ep_len: int,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Environments | Pool:
    """N environments: of `Hopper-v4`, `module:Id-v0` or `envpool/Hopper-v4`."""
    kind = Pool if env_id.startswith(PREFIX) else Environments
    return kind(env_id, count, seed, max_ep_len, env_kwargs)


def single(
    env_id: str, max_ep_len: int, env_kwargs: Mapping[str, Any] | None = None
) -> gymnasium.Env:
    """One of gymnasium's, in which a policy can be watched; also for EnvPool's."""
    return gym.single(env_id.removeprefix(PREFIX), max_ep_len, env_kwargs or {})


def misspelt(env_id: str) -> str:
    """What is wrong with the name, as far as it can be told without a module."""
    return "" if is_foreign(env_id) else gym.misspelt(env_id)


def is_foreign(env_id: str) -> bool:
    """Whether a module must be imported to know more of it: EnvPool's or a user's."""
    return env_id.startswith(PREFIX) or ":" in env_id


def is_mujoco(env_id: str) -> bool:
    """Whether it is one of gymnasium's own that MuJoCo simulates and draws."""
    try:
        entry = gymnasium.spec(env_id.removeprefix(PREFIX)).entry_point
    except (gymnasium.error.Error, ImportError):
        return False
    return str(entry).startswith("gymnasium.envs.mujoco")
