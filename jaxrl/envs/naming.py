"""Names of a user's own environments: `module:callable`, where it can be found again.

A run from a stranger names what it wants called, with arguments, so not every callable
is: `os:system` is a name too. What is called is a class of environments, or a function
that says `-> gymnasium.Env`, or one of the user's own modules.
"""

import functools
import inspect
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.experimental.functional import FuncEnv

from jaxrl import user_modules
from jaxrl.spaces import EnvSpec

FROM_PYTHON = "python:"  # what only the program has that gave it

Factory = Callable[..., gym.Env]
GivenEnv = str | Factory | gym.Env
"""An id or a name, a callable that makes an environment, or an environment."""


def name_of(env: GivenEnv) -> str:
    """How config.yaml names it: with `FROM_PYTHON` if it cannot be found again."""
    if isinstance(env, str):
        return env
    if isinstance(env, gym.vector.VectorEnv):
        raise ValueError(
            f"env is a {type(env).__name__}, but jaxrl steps environments itself; give "
            "a callable that makes one of them, and num_envs"
        )
    if isinstance(env, gym.Env):
        return FROM_PYTHON + type(env.unwrapped).__name__
    if is_jax_object(env):
        return FROM_PYTHON + type(env).__name__
    if not callable(env):
        raise ValueError(
            f"env is {env!r}, but must be an id, a callable that makes a gymnasium "
            "environment, an environment, or a JAX environment, which has `spec`, "
            "`reset` and `step`"
        )
    module, name = getattr(env, "__module__", ""), getattr(env, "__qualname__", "")
    if module and name and module != "__main__" and "<" not in name:
        try:
            if factory_in(user_modules.load(module), name) is env:
                return f"{module}:{name}"
        except (ImportError, ValueError):
            pass
    inner = getattr(env, "func", env)  # of a functools.partial
    word = getattr(inner, "__qualname__", type(inner).__name__).rpartition(".")[2]
    return FROM_PYTHON + word.strip("<>")


def is_jax_object(env: Any) -> bool:
    """Whether it has the functions of a JAX environment, ours or gymnasium's."""
    if isinstance(env, FuncEnv):
        return True
    has_functions = callable(getattr(env, "reset", None)) and hasattr(env, "step")
    return has_functions and isinstance(getattr(env, "spec", None), EnvSpec)


def factory_in(module: Any, name: str) -> Factory | None:
    """What `module:name` calls; None where it is an id that the module registers."""
    try:
        found = functools.reduce(getattr, name.split("."), module)
    except AttributeError:
        return None
    if not callable(found):
        return None
    if not _may_be_called(found, module):
        raise ValueError(
            f"{module.__name__}:{name} is not called: from installed packages jaxrl "
            "calls only classes of gymnasium.Env and functions annotated with "
            "'-> gymnasium.Env'; call it in a function of your own module"
        )
    return found


def _may_be_called(found: Any, module: Any) -> bool:
    if _makes_env(found):
        return True
    # What is only imported there is not the user's own.
    return getattr(found, "__module__", None) == module.__name__ and not _is_installed(
        module
    )


def _makes_env(found: Any) -> bool:
    """Whether it says so: a class of environments, or a function that returns one."""
    returned = found
    if not inspect.isclass(found):
        try:
            returned = typing.get_type_hints(found).get("return")
        except Exception:  # of whatever its package has written there
            return False
    returned = typing.get_origin(returned) or returned
    return inspect.isclass(returned) and issubclass(returned, gym.Env)


def _is_installed(module: Any) -> bool:
    """Whether it came with Python, with jaxrl or by a package manager."""
    top = module.__name__.partition(".")[0]
    file = getattr(module, "__file__", None)
    if top in (*sys.stdlib_module_names, "jaxrl") or file is None:
        return True
    return user_modules.is_installed(Path(file))
