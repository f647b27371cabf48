"""JAX environments of other packages, and of a user, as `JaxEnv`.

Always the bare environment: the last observation of an episode is its own, starts are
random, and the time limit is counted by the trainer, which bootstraps from it.
"""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv

from jaxrl.envs.conversion import action_space
from jaxrl.envs.jax import JaxEnv, Step
from jaxrl.envs.making import misspelt
from jaxrl.errors import unknown
from jaxrl.spaces import Box, Discrete, EnvSpec

NO_LIMIT = 2**30
# brax has no public list of them.
BRAX = (
    *("ant", "fast", "halfcheetah", "hopper", "humanoid", "humanoidstandup"),
    *("inverted_pendulum", "inverted_double_pendulum", "pusher", "reacher"),
    *("swimmer", "walker2d"),
)


class Functional(NamedTuple):
    """A `FuncEnv` of gymnasium, such as phys2d/CartPole-v1."""

    env: FuncEnv
    time_limit: int | None = None

    @property
    def spec(self) -> EnvSpec:
        """Sizes of observations, flattened, and actions."""
        space = state_of(self.env.observation_space)
        size = math.prod(space.shape or ())
        return EnvSpec(size, action_space(self.env.action_space))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """An initial state and its observation."""
        state_key, obs_key = jax.random.split(key)
        state = self.env.initial(state_key, self.env.default_params)
        return state, self._observe(state, obs_key)

    def step(self, state: Any, action: jax.Array, key: jax.Array) -> Step:
        """What follows an action."""
        env, params = self.env, self.env.default_params
        step_key, obs_key = jax.random.split(key)
        action = action.reshape(env.action_space.shape or ())
        after = env.transition(state, action, step_key, params)
        reward = env.reward(state, action, after, step_key, params)
        terminated = jnp.asarray(env.terminal(after, step_key, params), bool)
        obs = self._observe(after, obs_key)
        return Step(after, obs, _number(reward), terminated, jnp.array(False))

    def _observe(self, state: Any, key: jax.Array) -> jax.Array:
        obs = self.env.observation(state, key, self.env.default_params)
        return _flat(state_of(obs))

    def render(self, state: Any) -> np.ndarray:
        """A picture of the state."""
        params = self.env.default_params
        canvas = self.env.render_init(params=params)
        _, picture = self.env.render_image(state, canvas, params)
        self.env.render_close(canvas, params)
        return picture


class Gymnax(NamedTuple):
    """An environment of gymnax 0.0.9 or 1.0."""

    env: Any
    params: Any
    time_limit: int | None

    @property
    def spec(self) -> EnvSpec:
        """Sizes of observations, flattened, and actions."""
        size = math.prod(self.env.observation_space(self.params).shape)
        return EnvSpec(size, _gymnax_action(self.env.action_space(self.params)))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """An initial state and its observation."""
        obs, state = self.env.reset_env(key, self.params)
        return state, _flat(obs)

    def step(self, state: Any, action: jax.Array, key: jax.Array) -> Step:
        """What follows an action; without gymnax's own reset."""
        action = action.reshape(self.env.action_space(self.params).shape)
        obs, after, reward, done, _ = self.env.step_env(key, state, action, self.params)
        over = jnp.asarray(done, bool).reshape(())
        return Step(after, _flat(obs), _number(reward), over, jnp.array(False))


def _gymnax_action(space: Any) -> Box | Discrete:
    if hasattr(space, "n"):
        return Discrete(int(space.n))
    low, high = (np.broadcast_to(x, space.shape) for x in (space.low, space.high))
    return Box(tuple(low.ravel()), tuple(high.ravel()))


class Mujoco(NamedTuple):
    """An environment of brax or of MuJoCo Playground; actions are in [-1, 1]."""

    env: Any
    spec: EnvSpec
    time_limit: int | None

    @classmethod
    def from_env(cls, env: Any, time_limit: int) -> "Mujoco":
        """With the sizes that the environment's first observation has."""
        # Its `observation_size` resets the environment, slowly; shapes are enough.
        obs = jax.eval_shape(lambda key: env.reset(key).obs, jax.random.PRNGKey(0))
        shape = state_of(obs).shape
        low, high = ((bound,) * env.action_size for bound in (-1.0, 1.0))
        return cls(env, EnvSpec(math.prod(shape), Box(low, high)), time_limit)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """An initial state and its observation."""
        state = self.env.reset(jax.random.key_data(key))
        return state, self._observe(state)

    def step(self, state: Any, action: jax.Array, key: jax.Array) -> Step:
        """What follows an action."""
        after = self.env.step(state, action)
        over = jnp.asarray(after.done, bool)
        obs, reward = self._observe(after), _number(after.reward)
        return Step(after, obs, reward, over, jnp.array(False))

    def _observe(self, state: Any) -> jax.Array:
        return _flat(state_of(state.obs))

    def render(self, state: Any) -> np.ndarray:
        """A picture of the state, by MuJoCo's renderer."""
        model = getattr(self.env, "mj_model", None) or self.env.sys.mj_model
        physics = getattr(state, "pipeline_state", None)
        physics = state.data if physics is None else physics
        qpos, qvel = (getattr(physics, "q" + x, None) for x in ("pos", "vel"))
        if qpos is None:
            qpos, qvel = physics.q, physics.qd
        return _draw(model, np.asarray(qpos), np.asarray(qvel))


@functools.cache
def _renderer(model: Any) -> tuple[Any, Any]:
    mujoco = importlib.import_module("mujoco")
    return mujoco.Renderer(model, 480, 640), mujoco.MjData(model)


def _draw(model: Any, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    mujoco = importlib.import_module("mujoco")
    renderer, data = _renderer(model)
    data.qpos, data.qvel = qpos, qvel
    mujoco.mj_forward(model, data)
    renderer.update_scene(data)
    return renderer.render()


class OfDict(NamedTuple):
    """A user's environment with dicts of observations, of which it has `state`."""

    env: Any

    @property
    def spec(self) -> EnvSpec:
        """Sizes of the observation `state`, and actions."""
        return self.env.spec

    @property
    def time_limit(self) -> int | None:
        """The environment's, if it has one."""
        return getattr(self.env, "time_limit", None)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """An initial state and its observation."""
        state, obs = self.env.reset(key)
        return state, _flat(state_of(obs))

    def step(self, state: Any, action: jax.Array, key: jax.Array) -> Step:
        """What follows an action."""
        after = self.env.step(state, action, key)
        obs = _flat(state_of(after.obs))
        return Step(after.state, obs, *(getattr(after, x) for x in Step._fields[2:]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)  # such as `render`


def state_of(obs: Any) -> Any:
    """Of a dict of observations, or of their spaces, the one named `state`."""
    if not isinstance(obs, Mapping):
        return obs
    names = list(obs)
    if "state" not in names:
        raise ValueError(
            f"its observations are a dict of {', '.join(map(str, names))}; jaxrl takes "
            "the one named 'state', and there is none"
        )
    return obs["state"]


def _flat(obs: Any) -> jax.Array:
    return jnp.ravel(jnp.asarray(obs, jnp.float32))


def _number(reward: Any) -> jax.Array:
    return jnp.asarray(reward, jnp.float32).reshape(())


# By name


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
        raise TypeError(str(error.args[0]).partition("\n")[0]) from None
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
