"""Environments: gymnasium and EnvPool on the host, and JAX environments."""

import functools
from collections.abc import Mapping
from typing import Any

import gymnasium

from jaxrl.envs import gym, pool
from jaxrl.envs.gym import Environments, spec_of
from jaxrl.envs.pool import PREFIX, Pool

__all__ = [
    "is_foreign",
    "is_jax",
    "is_mujoco",
    "make",
    "misspelt",
    "remade",
    "single",
    "spec_of",
]

JAX_FAMILIES = ("phys2d", "gymnax", "brax", "playground")


def make(
    env_id: str,
    count: int,
    seed: int,
    max_ep_len: int,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Environments | Pool:
    """N environments, such as `Hopper-v4`, `module:Id-v0` or `envpool/Hopper-v4`."""
    if env_id.startswith(PREFIX):
        make_pool = functools.partial(pool.make, env_id, count, env_kwargs or {})
        return Pool(make_pool, seed, max_ep_len)
    return Environments(env_id, count, seed, max_ep_len, env_kwargs)


def is_jax(env_id: str) -> bool:
    """Whether it is a JAX environment, such as gymnax/CartPole-v1."""
    return env_id.partition("/")[0] in JAX_FAMILIES


def single(
    env_id: str, max_ep_len: int, env_kwargs: Mapping[str, Any] | None = None
) -> gymnasium.Env:
    """One environment for evaluation, by gymnasium also where training uses EnvPool."""
    if is_jax(env_id):
        from jaxrl.envs import jax_adapters, jax_gym  # imports JAX

        given = dict(env_kwargs or {})
        mode = given.pop("render_mode", None)
        env = jax_gym.JaxGym(jax_adapters.make(env_id, given), env_id, mode)
        return gymnasium.wrappers.TimeLimit(env, max_ep_len)
    return gym.single(env_id.removeprefix(PREFIX), max_ep_len, env_kwargs or {})


def remade(spec: Any, env_kwargs: Mapping[str, Any]) -> gymnasium.Env:
    """Another environment such as the one with this spec, with other arguments."""
    return gymnasium.make(spec, disable_env_checker=True, **env_kwargs)


def misspelt(env_id: str) -> str:
    """An error if gymnasium has no such environment; empty if a module may have it."""
    return "" if is_foreign(env_id) or is_jax(env_id) else gym.misspelt(env_id)


def is_foreign(env_id: str) -> bool:
    """Whether another module registers it: EnvPool or a user's own."""
    return env_id.startswith(PREFIX) or ":" in env_id


def is_mujoco(env_id: str) -> bool:
    """Whether it is one of gymnasium's own MuJoCo environments."""
    try:
        entry = gymnasium.spec(env_id.removeprefix(PREFIX)).entry_point
    except (gymnasium.error.Error, ImportError):
        return False
    return str(entry).startswith("gymnasium.envs.mujoco")
