"""Makes one environment: by an id, by a name, or as a user's callable does."""

import contextlib
import difflib
import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym

from jaxrl import user_modules
from jaxrl.envs.naming import (
    FROM_PYTHON,
    Factory,
    GivenEnv,
    factory_in,
    is_jax_object,
)

# Prefixes of ids, the modules that register them, and what to install.
PACKAGES = {
    "ALE/": ("ale_py", "pip install ale-py"),
    "dm_control/": ("shimmy", "pip install 'shimmy[dm-control]'"),
}

# Prefixes of JAX environments.
JAX_FAMILIES = ("phys2d", "gymnax", "brax", "playground")


def is_jax(env: GivenEnv) -> bool:
    """Whether it is a JAX environment, such as gymnax/CartPole-v1."""
    return isinstance(env, str) and env.partition("/")[0] in JAX_FAMILIES


def make(env: GivenEnv, env_kwargs: Mapping[str, Any]) -> gym.Env:
    """An environment by its id, its name or a callable; one that exists as it is."""
    if isinstance(env, gym.Env):
        return env
    if is_jax_object(env):
        return _as_gymnasium(env)
    made = _by_name(env, env_kwargs) if isinstance(env, str) else _call(env, env_kwargs)
    _redirect_mujoco_warnings()
    return made


def takes(env: GivenEnv, argument: str) -> bool:
    """Whether what makes this environment accepts a keyword argument."""
    if not isinstance(env, str):
        return not isinstance(env, gym.Env) and _accepts(env, argument)
    module, _, name = env.rpartition(":")
    if not module or env.startswith(FROM_PYTHON):
        return True
    try:
        factory = factory_in(user_modules.load(module), name)
        return factory is None or _accepts(factory, argument)
    except (ImportError, ValueError):
        return True  # which `make` explains


def _accepts(factory: Factory, argument: str) -> bool:
    """Whether the callable has a parameter of that name, or takes any."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return True
    kinds = {parameter.kind for parameter in parameters.values()}
    return argument in parameters or inspect.Parameter.VAR_KEYWORD in kinds


def misspelt(env_id: str) -> str:
    """An error if there is no such environment; empty if there may be one."""
    module, _, name = env_id.rpartition(":")
    known = {*gym.registry, *(one.rpartition("-v")[0] for one in gym.registry)}
    near = difflib.get_close_matches(name, gym.registry, 3, 0.66)
    if name in known or (module and not near):
        return ""
    if missing := _missing_package(env_id):
        return missing
    other = "if a package registers it, name its module, as in my_module:MyEnv-v0"
    hint = f"did you mean {' or '.join(near)}?" if near else other
    return f"gymnasium has no environment {env_id!r}; {hint}"


def _missing_package(env_id: str) -> str:
    for prefix, (module, install) in PACKAGES.items():
        if env_id.startswith(prefix):
            return (
                f"gymnasium itself has no {env_id!r}: {install}, and name it "
                f"{module}:{env_id}"
            )
    return ""


def _by_name(env_id: str, env_kwargs: Mapping[str, Any]) -> gym.Env:
    if env_id.startswith(FROM_PYTHON):
        raise ValueError(
            f"the environment {env_id} was given from Python, where only your program "
            "has it; there use jaxrl.resume(directory, env=...), jaxrl.load(directory, "
            "env=...) or jaxrl.train(algo, env)"
        )
    if is_jax(env_id):
        from jaxrl.envs import jax_gym  # imports JAX

        return jax_gym.make(env_id, env_kwargs)
    module, _, name = env_id.rpartition(":")
    try:
        if module and (factory := factory_in(user_modules.load(module), name)):
            return _call(factory, env_kwargs)
        return _gym_make(name, env_id, env_kwargs)
    except ModuleNotFoundError as error:
        # gymnasium's own error about the module of an id has no name.
        missing = error.name or name.rpartition(":")[0] or module
        raise ValueError(_cannot_import(env_id, missing)) from None
    except (gym.error.Error, ImportError) as error:
        if sentence := misspelt(env_id):
            raise ValueError(sentence) from None
        reason = _newer_version(name)
        if not isinstance(error, ImportError):
            reason = reason or _not_in(module, name)
        reason = reason or " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"cannot make {env_id!r}: {reason}") from None


def _not_in(module: str, name: str) -> str:
    """That the module has nothing of the name, which is no id either."""
    if not module or hasattr(sys.modules.get(module), name):
        return ""
    return (
        f"{module} has no function or class {name!r} and registers no environment of "
        "that name"
    )


def _gym_make(name: str, env_id: str, env_kwargs: Mapping[str, Any]) -> gym.Env:
    try:
        with warnings.catch_warnings(), _explained(env_id, env_kwargs):
            warnings.filterwarnings("ignore", message=".*out of date.*")
            return gym.make(name, disable_env_checker=True, **env_kwargs)
    except TypeError as error:
        reason = str(error).split(" was raised from")[0]
        raise ValueError(
            f"{env_id!r} does not accept {dict(env_kwargs)}: {reason}"
        ) from None


@contextlib.contextmanager
def _explained(name: str, env_kwargs: Mapping[str, Any]) -> Iterator[None]:
    """Arguments that installed code does not take are a mistake, and no defect of it.

    Errors in a user's own code keep their traceback.
    """
    try:
        yield
    except (gym.error.Error, ImportError, TypeError):
        raise  # which are explained elsewhere
    except Exception as error:
        if not env_kwargs or not user_modules.only_installed(error.__traceback__):
            raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ValueError(
            f"{name!r} does not accept {dict(env_kwargs)}: {reason}"
        ) from None


def _cannot_import(env_id: str, module: str) -> str:
    for known, install in PACKAGES.values():
        if module == known:
            return f"{env_id} needs the package {module}; {install}"
    return (
        f"cannot import {module!r} for {env_id!r}; if it is in this directory and you "
        "trust it, set PYTHONPATH=."
    )


def _call(factory: Factory, env_kwargs: Mapping[str, Any]) -> gym.Env:
    word = getattr(factory, "__qualname__", repr(factory))
    if fault := _unfit(factory, env_kwargs):
        raise ValueError(f"{word} does not accept {dict(env_kwargs)}: {fault}")
    try:
        with _explained(word, env_kwargs):
            made = factory(**env_kwargs)
    except TypeError as error:
        if not user_modules.only_installed(error.__traceback__):
            raise
        raise ValueError(f"{word} does not accept {dict(env_kwargs)}: {error}") from (
            None
        )
    if isinstance(made, gym.Env):
        return made
    if is_jax_object(made):
        return _as_gymnasium(made)
    raise ValueError(
        f"{word} must return a gymnasium environment, or a JAX environment with "
        "`spec`, `reset` and `step`, but returned a "
        f"{type(made).__module__}.{type(made).__name__}"
    )


def _as_gymnasium(env: Any) -> gym.Env:
    from jaxrl.envs import jax_gym  # imports JAX

    return jax_gym.from_object(env)


def _unfit(factory: Factory, env_kwargs: Mapping[str, Any]) -> str:
    """Why it cannot be called so; empty if it can, or if nobody knows."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(**env_kwargs)
    except TypeError as error:
        return str(error)
    return ""


def _newer_version(name: str) -> str:
    """A hint where gymnasium has dropped this version, such as Hopper-v2."""
    base, _, version = name.rpartition("-v")
    others = [one.rpartition("-v") for one in gym.registry]
    newest = max((v for b, _, v in others if b == base), default=version)
    return f"it was removed; use {base}-v{newest}" if newest > version else ""


def _redirect_mujoco_warnings() -> None:
    """Prints MuJoCo's first warning on stderr, and drops the others.

    By default MuJoCo appends each to MUJOCO_LOG.TXT in the current directory. A
    handler that the user has set stays.
    """
    mujoco = sys.modules.get("mujoco")  # there if an environment has imported it
    if mujoco is None or mujoco.get_mju_user_warning() is not None:
        return
    shown: list[str] = []

    def show_first(message: str) -> None:
        if not shown:
            shown.append(message)
            with contextlib.suppress(OSError, ValueError):  # stderr may be closed
                print(f"note: MuJoCo: {message}", file=sys.stderr, flush=True)

    mujoco.set_mju_user_warning(show_first)
