"""JAX environments of other packages, and some of users, as `JaxEnv`.

Always the bare environment: the last observation of an episode is its own, starts are
random, and the time limit is counted by the trainer, which bootstraps from it.
"""

import functools
import importlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv

from jaxrl.envs.conversion import action_space
from jaxrl.envs.jax import Step
from jaxrl.spaces import Box, Discrete, EnvSpec


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
