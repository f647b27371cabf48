"""Which environments are JAX environments: by name, and those of users."""

import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
from gymnasium.experimental.functional import FuncEnv

from jaxrl import user_modules
from jaxrl.envs.jax import JaxEnv, Step
from jaxrl.envs.jax_adapters import make
from jaxrl.envs.jax_wrappers import Functional, OfDict, state_of
from jaxrl.envs.making import is_jax
from jaxrl.envs.naming import FROM_PYTHON, GivenEnv, factory_in, is_jax_object
from jaxrl.spaces import Discrete


def find(env: GivenEnv, env_kwargs: Mapping[str, Any]) -> JaxEnv | None:
    """The JAX environment that `env` names, is or makes; None if it is another kind."""
    if is_jax(env):
        made = make(str(env), env_kwargs)
        return _checked(made, f"{env} with {dict(env_kwargs)}") if env_kwargs else made
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
    name = type(env).__name__
    if isinstance(env, FuncEnv):
        return _checked(Functional(env), name)
    _, obs = _pair(_traced(env.reset, name, "reset")(jax.random.key(0)), name)
    if isinstance(obs, Mapping):
        state_of(obs)
        env = OfDict(env)
    return _checked(env, name)


def _checked(env: JaxEnv, name: str) -> JaxEnv:
    """Refuses an environment whose functions do not fit together."""
    action, size = env.spec.action, env.spec.obs_size
    zero = jnp.zeros(() if isinstance(action, Discrete) else action.size)
    chosen = action.scale(zero.astype(int) if isinstance(action, Discrete) else zero)

    key = jax.random.key(0)
    before, obs = _pair(_traced(env.reset, name, "reset")(key), name)
    after = _traced(env.step, name, "step")(before, chosen, key)
    _check_step(after, name)
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


def _traced(function: Callable, name: str, what: str) -> Callable:
    """The shapes that a user's function returns; a sentence if it cannot be traced."""

    def shapes(*given: Any) -> Any:
        try:
            return jax.eval_shape(function, *given)
        except Exception as error:
            place = _place_in(error, function)
            reason = str(error).partition("\n")[0].strip(" .")
            raise ValueError(
                f"{name}: {what} failed{place} with {type(error).__name__}: {reason}; "
                "it must be a pure function that jax.jit can compile"
            ) from error

    return shapes


def _place_in(error: Exception, function: Callable) -> str:
    """The last line of the user's file that failed."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:  # an object that can be called
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f" in line {lines[-1]} of {file}" if lines else ""


def _pair(found: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(found, tuple) or len(found) != 2:
        raise ValueError(
            f"{name}: reset must return a pair, a state and an observation, but "
            f"returned a {type(found).__name__}"
        )
    return found


def _check_step(after: Any, name: str) -> None:
    if not all(hasattr(after, field) for field in Step._fields):
        raise ValueError(
            f"{name}: step must return a jaxrl.envs.jax.Step of "
            f"{', '.join(Step._fields)}, but returned a {type(after).__name__}"
        )
    for field in ("reward", "terminated", "truncated"):
        value = getattr(after, field)
        flag = field != "reward"
        if value.shape != () or (flag and value.dtype != bool):
            wanted = "bool" if flag else "number"
            raise ValueError(
                f"{name}: {field} must be one {wanted}, of shape (), but step returns "
                f"{value.dtype} of shape {value.shape}"
            )
