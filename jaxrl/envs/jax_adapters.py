"""Makes the JAX environments of other packages by their names, such as brax/hopper."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gymnasium as gym

from jaxrl.envs.jax import JaxEnv
from jaxrl.envs.jax_wrappers import Functional, Gymnax, Mujoco
from jaxrl.envs.making import misspelt
from jaxrl.errors import unknown

NO_LIMIT = 2**30
# brax has no public list of them.
BRAX = (
    *("ant", "fast", "halfcheetah", "hopper", "humanoid", "humanoidstandup"),
    *("inverted_pendulum", "inverted_double_pendulum", "pusher", "reacher"),
    *("swimmer", "walker2d"),
)


def phys2d(name: str, env_kwargs: Mapping[str, Any]) -> JaxEnv:
    """One of gymnasium's own."""
    env_id = f"phys2d/{name}"
    if sentence := misspelt(env_id):
        raise ValueError(sentence)
    made: Any = gym.make(env_id, disable_env_checker=True).unwrapped
    env = made.func_env
    env.default_params = env.get_default_params(**env_kwargs)
    return Functional(env, gym.spec(env_id).max_episode_steps)


def gymnax(name: str, env_kwargs: Mapping[str, Any]) -> JaxEnv:
    """One of gymnax's."""
    # Imported by gymnax for the picture of one game; it takes a second.
    package = _package("gymnax", "gymnax", unused="seaborn")
    _check_known("gymnax", name, package.registered_envs)
    # Its MinAtar games make JAX warn at each compilation.
    warnings.filterwarnings("ignore", "scatter inputs have incompatible types")
    env, params = package.make(name)
    params = params.replace(**env_kwargs) if env_kwargs else params
    limit = int(params.max_steps_in_episode)
    if not hasattr(env, "is_truncated"):  # 0.0.9 has one `done` for both
        params = params.replace(max_steps_in_episode=NO_LIMIT)
    return Gymnax(env, params, limit)


def brax(name: str, env_kwargs: Mapping[str, Any]) -> JaxEnv:
    """One of brax's."""
    envs = _package("brax.envs", "brax")
    # It reads fields of MuJoCo's that newer releases have moved.
    warnings.filterwarnings("ignore", "Accessing .* directly from .* is deprecated")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it is not maintained
            env = envs.get_environment(name, **env_kwargs)
        return Mujoco.from_env(env, 1000)
    except KeyError:
        raise ValueError(unknown("brax environment", name, BRAX)) from None


def playground(name: str, env_kwargs: Mapping[str, Any]) -> JaxEnv:
    """One of MuJoCo Playground's."""
    registry = _package("mujoco_playground", "playground").registry
    _check_known("playground", name, registry.ALL_ENVS)
    # Warp, its other implementation, needs a GPU of NVIDIA.
    overrides = {"impl": "jax", **env_kwargs}
    try:
        env = registry.load(name, config_overrides=overrides)
    except KeyError as error:  # which names a setting, and then shows all
        raise TypeError(str(error.args[0]).partition(". ")[0]) from None
    except subprocess.CalledProcessError as error:  # it clones a repository
        raise ValueError(f"playground/{name} needs a download: {error}") from None
    limit = int(registry.get_default_config(name).episode_length)
    return Mujoco.from_env(env, limit)


FAMILIES: dict[str, Callable[[str, Mapping[str, Any]], JaxEnv]] = {
    "phys2d": phys2d,
    "gymnax": gymnax,
    "brax": brax,
    "playground": playground,
}


def _package(module: str, extra: str, unused: str = "") -> Any:
    finder = _LoadAtFirstUse(unused)
    sys.meta_path.insert(0, finder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of packages that they use
            return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"{extra}/... needs the extra {extra!r} (pip install 'jaxrl[{extra}]'): "
            f"{error}"
        ) from None
    finally:
        sys.meta_path.remove(finder)


class _LoadAtFirstUse(importlib.abc.MetaPathFinder):
    """Makes `import name` cheap: the module is loaded when something in it is used."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec and spec.loader:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def _check_known(family: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ValueError(unknown(f"{family} environment", name, known))


def make(env_id: str, env_kwargs: Mapping[str, Any] | None = None) -> JaxEnv:
    """The JAX environment of a name such as phys2d/CartPole-v1 or brax/hopper."""
    family, _, name = env_id.partition("/")
    try:
        return FAMILIES[family](name, env_kwargs or {})
    except TypeError as error:
        given = dict(env_kwargs or {})
        raise ValueError(f"{env_id!r} does not accept {given}: {error}") from None
