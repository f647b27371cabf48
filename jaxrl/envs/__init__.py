"""Environments: gymnasium and EnvPool on the host, and JAX environments."""

import functools
import os
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from jaxrl.envs import gym, making, pool
from jaxrl.envs.conversion import spec_of
from jaxrl.envs.gym import Environments
from jaxrl.envs.making import is_jax, takes
from jaxrl.envs.naming import FROM_PYTHON, GivenEnv, name_of
from jaxrl.envs.pool import PREFIX, Pool
from jaxrl.envs.workers import Workers
from jaxrl.spaces import EnvSpec

MOST_WORKERS = 256  # processes, on a machine with up to 64 cores

__all__ = [
    "FROM_PYTHON",
    "GivenEnv",
    "check_distinct",
    "is_foreign",
    "is_instance",
    "is_jax",
    "is_mujoco",
    "make",
    "misspelt",
    "name_of",
    "remade",
    "single",
    "single_with_spec",
    "spec_of",
    "takes",
]


def make(
    env: GivenEnv,
    count: int,
    seed: int,
    max_ep_len: int,
    env_kwargs: Mapping[str, Any] | None = None,
    workers: int = 0,
) -> Environments | Workers | Pool:
    """N environments, such as `Hopper-v4`, `module:Id-v0` or `envpool/Hopper-v4`.

    `env` may also be a callable that makes one, or one environment if N is 1.
    """
    kwargs = env_kwargs or {}
    if workers:
        _check_workers(env, count, workers)
    if isinstance(env, str) and env.startswith(PREFIX):
        make_pool = functools.partial(pool.make, env, count, kwargs)
        return Pool(make_pool, seed, max_ep_len)
    seeds = [int(own) for own in np.random.SeedSequence(seed).generate_state(count)]
    if workers:
        return Workers(str(env), seeds, max_ep_len, kwargs, workers)
    if isinstance(env, gymnasium.Env):
        _check_instance(count, kwargs)
        return Environments([env], seeds, max_ep_len, closes=False)
    made = [making.make(env, kwargs) for _ in range(count)]
    check_distinct(made)
    return Environments(made, seeds, max_ep_len)


def _check_workers(env: GivenEnv, count: int, workers: int) -> None:
    if workers > count:
        raise ValueError(
            f"env_workers is {workers}, but there is {count} environment(s) to step; "
            f"set --num_envs {workers} or more"
        )
    most = max(MOST_WORKERS, 4 * (os.cpu_count() or 1))
    if workers > most:  # as a stranger's settings may ask
        raise ValueError(
            f"env_workers is {workers}, but this machine takes at most {most} processes"
        )
    if not isinstance(env, str) or env.startswith(FROM_PYTHON):
        raise ValueError(
            "env_workers needs an environment that other processes can find: an id, or "
            "a function or class in a module that they can import, not one of a "
            "notebook, of the started script, a lambda or an instance"
        )
    if env.startswith(PREFIX):
        raise ValueError(
            f"env_workers is {workers}, but EnvPool has its own threads; leave it "
            "out, or use gymnasium's environment"
        )


def _check_instance(count: int, env_kwargs: Mapping[str, Any]) -> None:
    if count > 1:
        raise ValueError(
            f"num_envs is {count}, but env is one environment; give a callable that "
            "makes one, such as lambda: MyEnv()"
        )
    if env_kwargs:
        raise ValueError(
            f"env_kwargs is {dict(env_kwargs)}, but env is already made; give a "
            "callable that takes them"
        )


def check_distinct(made: list[gymnasium.Env]) -> None:
    """Refuses a callable that returns the same environment twice."""
    if len({id(env) for env in made}) < len(made):
        raise ValueError(
            "env returned the same environment twice; it must make a new one each time"
        )


def is_instance(env: GivenEnv) -> bool:
    """Whether it is one environment, not what makes one."""
    return isinstance(env, gymnasium.Env)


def single(
    env: GivenEnv, max_ep_len: int, env_kwargs: Mapping[str, Any] | None = None
) -> gymnasium.Env:
    """One environment for evaluation, by gymnasium also where training uses EnvPool."""
    return single_with_spec(env, max_ep_len, env_kwargs)[0]


def single_with_spec(
    env: GivenEnv, max_ep_len: int, env_kwargs: Mapping[str, Any] | None = None
) -> tuple[gymnasium.Env, EnvSpec]:
    """Also returns the spec of the environment before it is flattened."""
    source = env.removeprefix(PREFIX) if isinstance(env, str) else env
    return gym.single(source, max_ep_len, env_kwargs or {})


def remade(spec: Any, env_kwargs: Mapping[str, Any]) -> gymnasium.Env:
    """Another environment such as the one with this spec, with more arguments."""
    try:
        return gymnasium.make(spec, disable_env_checker=True, **env_kwargs)
    except Exception as error:  # from any environment or wrapper
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{spec.id!r} cannot be made again: {reason}") from None


def misspelt(env_id: str) -> str:
    """An error if gymnasium has no such environment; empty if a module may have it."""
    return "" if is_foreign(env_id) or is_jax(env_id) else making.misspelt(env_id)


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
