"""A JAX environment on the host, as gymnasium's: for eval, video and `jaxrl.load`."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import jax
import numpy as np

from jaxrl.envs import jax_adapters, jax_finding
from jaxrl.envs.jax import JaxEnv
from jaxrl.spaces import Discrete


class JaxGym(gym.Env):
    """One environment, stepped by jitted calls; its time limit is its own."""

    def __init__(self, env: JaxEnv, name: str, render_mode: str | None = None) -> None:
        modes = ["rgb_array"] if hasattr(env, "render") else []
        if render_mode not in (None, *modes):
            raise ValueError(f"{name} cannot be drawn as {render_mode!r}")
        self.metadata = {"render_modes": modes, "render_fps": 30}
        self.render_mode, self._env = render_mode, env
        shape = (env.spec.obs_size,)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, shape, np.float32)
        self.action_space = _gymnasium_space(env.spec.action)
        self._reset, self._step = jax.jit(env.reset), jax.jit(env.step)
        self._limit = getattr(env, "time_limit", None)
        self._state: Any = None
        self._length = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode."""
        super().reset(seed=seed)
        self._state, obs = self._reset(self._next_key())
        self._length = 0
        return np.asarray(obs), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Steps the environment, with its time limit."""
        after = self._step(self._state, np.asarray(action), self._next_key())
        self._state = after.state
        self._length += 1
        late = self._limit is not None and self._length >= self._limit
        terminated = bool(after.terminated)
        truncated = not terminated and (late or bool(after.truncated))
        return np.asarray(after.obs), float(after.reward), terminated, truncated, {}

    def render(self) -> np.ndarray | None:
        """A picture, or None if `render_mode` is None."""
        if self.render_mode is None:
            return None
        draw: Any = self._env
        return draw.render(self._state)

    def _next_key(self) -> jax.Array:
        return jax.random.key(self.np_random.integers(2**32, dtype=np.uint32))


def make(env_id: str, env_kwargs: Mapping[str, Any]) -> JaxGym:
    """The environment of a name such as phys2d/CartPole-v1."""
    given = dict(env_kwargs)
    mode = given.pop("render_mode", None)
    return JaxGym(jax_adapters.make(env_id, given), env_id, mode)


def from_object(env: Any) -> JaxGym:
    """Of a user's object, which is drawn if it has a method `render(state)`."""
    found = jax_finding.from_object(env)
    mode = "rgb_array" if hasattr(found, "render") else None
    return JaxGym(found, type(env).__name__, mode)


def _gymnasium_space(space: Any) -> gym.Space:
    """Of the environment's actions, which start at 0 where `Discrete` has a `start`."""
    if isinstance(space, Discrete):
        return gym.spaces.Discrete(space.n, start=space.start)
    return gym.spaces.Box(
        np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
    )
