"""Which environments are JAX environments: by name, and those of users."""

import inspect
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
from gymnasium.experimental.functional import FuncEnv

from jaxrl import user_modules
from jaxrl.envs.jax import JaxEnv, Step
from jaxrl.envs.jax_adapters import Functional, make
from jaxrl.envs.making import is_jax
from jaxrl.envs.naming import FROM_PYTHON, GivenEnv, factory_in, is_jax_object
from jaxrl.spaces import Discrete


def find(env: GivenEnv, env_kwargs: Mapping[str, Any]) -> JaxEnv | None:
    """The JAX environment that `env` names, is or makes; None if it is another kind."""
    if is_jax(env):
        return make(str(env), env_kwargs)
    found = _named(env)
    if inspect.isclass(found):
        found = found(**env_kwargs) if _looks_functional(found) else None
    return from_object(found) if is_jax_object(found) else None


def is_own(env: GivenEnv) -> bool:
    """Whether it is a user's JAX environment, or a class of them."""
    found = _named(env)
    return _looks_functional(found) if inspect.isclass(found) else is_jax_object(found)


def _named(env: GivenEnv) -> Any:
    """What the name `module:NAME` is; None if it is an id, other than names as is."""
    if not isinstance(env, str):
        return env
    module, _, name = env.rpartition(":")
    if not module or env.startswith(FROM_PYTHON):
        return None
    try:
        found = user_modules.load(module)
    except ImportError:
        return None  # which gymnasium's way explains
    return factory_in(found, name) or getattr(found, name, None)


def _looks_functional(env: type) -> bool:
    if issubclass(env, FuncEnv):
        return True
    has_functions = all(hasattr(env, name) for name in ("reset", "step"))
    return has_functions and not issubclass(env, gym.Env)


def from_object(env: Any) -> JaxEnv:
    """A user's object with our protocol, or a `FuncEnv`."""
    wrapped = Functional(env) if isinstance(env, FuncEnv) else env
    return _checked(wrapped, type(env).__name__)


def _checked(env: JaxEnv, name: str) -> JaxEnv:
    """Refuses an environment whose functions do not fit together."""
    action, size = env.spec.action, env.spec.obs_size
    zero = jnp.zeros(() if isinstance(action, Discrete) else action.size)
    chosen = action.scale(zero.astype(int) if isinstance(action, Discrete) else zero)

    def first_step(key: jax.Array) -> tuple[Any, jax.Array, Step]:
        state, obs = env.reset(key)
        return state, obs, env.step(state, chosen, key)

    before, obs, after = jax.eval_shape(first_step, jax.random.key(0))
    if obs.shape != (size,) or after.obs.shape != (size,):
        raise ValueError(
            f"{name} has observations of shape {obs.shape} after reset and "
            f"{after.obs.shape} after step, but its spec has obs_size {size}"
        )
    shapes = [
        [(x.shape, x.dtype) for x in jax.tree.leaves(s)] for s in (before, after.state)
    ]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"{name}: the state after step has other shapes or types than after reset: "
            f"{shapes[1]} and {shapes[0]}"
        )
    return env
