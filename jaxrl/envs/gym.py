"""Gymnasium's environments: N of them in one process, or one for evaluation."""

import contextlib
import difflib
import importlib
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from jaxrl.spaces import Box, Discrete, EnvSpec


def spec_of(env: gym.Env | gym.vector.VectorEnv) -> EnvSpec:
    """The spec of an environment; observations are flattened to vectors."""
    if not isinstance(getattr(env, "observation_space", None), gym.Space):
        raise TypeError(
            f"spec_of takes a gymnasium environment, got {env!r}; make one with "
            "gymnasium.make"
        )
    single = getattr(env, "single_observation_space", None)
    space = env.observation_space if single is None else single
    if not isinstance(space, gym.spaces.Box):
        raise ValueError(
            f"jaxrl takes Box observations, but the environment gives a "
            f"{type(space).__name__}; wrap it in gymnasium.wrappers.FlattenObservation"
        )
    actions = getattr(env, "single_action_space", env.action_space)
    return EnvSpec(math.prod(space.shape), action_space(actions))


def action_space(space: gym.Space) -> Box | Discrete:
    """The same space in jaxrl's terms."""
    if isinstance(space, gym.spaces.Discrete):
        return Discrete(int(space.n), int(space.start))
    if isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return Box(tuple(space.low.ravel()), tuple(space.high.ravel()))
    raise ValueError(
        f"jaxrl supports real Box and Discrete actions, but the environment takes "
        f"{space}; wrap it in one that takes either"
    )


class Episode(NamedTuple):
    """A finished episode."""

    returned: float
    length: int


class Stepped(NamedTuple):
    """The results of a step in N environments; `next_obs` is from before a reset."""

    reward: np.ndarray
    next_obs: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


class Environments:
    """N gymnasium environments side by side, each reset as soon as its episode ends.

    Checkpointed by replaying the episode's actions from its initial RNG state.
    """

    def __init__(
        self,
        env_id: str,
        count: int,
        seed: int,
        max_ep_len: int,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.envs = [_make(env_id, env_kwargs or {}) for _ in range(count)]
        self.spec = spec_of(self.envs[0])
        self.finished: list[Episode] = []
        self._max_ep_len = max_ep_len
        self._to_envs = _action_scaler(self.envs[0].action_space)
        self._returned, self._length = [0.0] * count, [0] * count
        self.rewards = [0.0] * count  # of the last step, in double precision
        self._origins: list[dict[str, Any]] = [{} for _ in range(count)]
        self._actions: list[list[np.ndarray]] = [[] for _ in range(count)]
        self.obs = np.zeros((count, self.spec.obs_size), np.float32)
        for i, own in enumerate(np.random.SeedSequence(seed).generate_state(count)):
            self.obs[i] = self._start_episode(i, {"seed": int(own)})

    def step(self, action: np.ndarray) -> Stepped:
        """Steps each environment; adds finished episodes to `finished`."""
        check_finite("action", action)
        count = len(self.envs)
        after = Stepped(
            np.empty(count, np.float32),
            np.empty_like(self.obs),
            np.zeros(count, bool),
            np.zeros(count, bool),
        )
        for i, chosen in enumerate(self._to_envs(action)):
            obs, reward, terminated, truncated, _ = self.envs[i].step(chosen)
            self._actions[i].append(action[i])
            self.obs[i] = after.next_obs[i] = np.ravel(obs)
            after.reward[i] = reward
            self.rewards[i] = float(reward)
            self._returned[i] += self.rewards[i]
            self._length[i] += 1
            truncated = truncated or self._length[i] >= self._max_ep_len
            if terminated or truncated:
                after.terminated[i], after.truncated[i] = terminated, not terminated
                self.finished.append(Episode(self._returned[i], self._length[i]))
                self._returned[i], self._length[i] = 0.0, 0
                self.obs[i] = self._start_episode(i, _rng_state(self.envs[i]))
        check_finite("reward", after.reward)
        check_finite("observation", after.next_obs)
        return after

    def _start_episode(self, i: int, origin: dict[str, Any]) -> np.ndarray:
        """Resets from a seed or a state of the random generator."""
        self._origins[i], self._actions[i] = origin, []
        env = self.envs[i]
        if "state" in origin:
            env.unwrapped.np_random.bit_generator.state = origin["state"]
        obs = np.ravel(env.reset(seed=origin.get("seed"))[0])
        check_finite("observation", obs)
        return obs

    def take_finished(self) -> list[Episode]:
        """The episodes finished since the last call."""
        finished, self.finished = self.finished, []
        return finished

    def saved(self) -> dict[str, Any]:
        """The state for `restore`, as plain values and arrays."""
        return {
            "obs": self.obs.copy(),
            "returned": list(self._returned),
            "finished": [list(episode) for episode in self.finished],
            "origins": list(self._origins),
            "actions": [np.array(actions) for actions in self._actions],
        }

    def restore(self, saved: Mapping[str, Any]) -> list[int]:
        """Continues from `saved`; returns the environments that were reset instead."""
        self.finished = [Episode(*episode) for episode in saved["finished"]]
        failed = []
        for i, actions in enumerate(saved["actions"]):
            self._returned[i], self._length[i] = saved["returned"][i], len(actions)
            if not self._replay_episode(
                i, saved["origins"][i], actions, saved["obs"][i]
            ):
                failed.append(i)
                self._returned[i], self._length[i] = 0.0, 0
                self.obs[i] = self._start_episode(i, _rng_state(self.envs[i]))
        return failed

    def _replay_episode(
        self, i: int, origin: dict[str, Any], actions: np.ndarray, last: np.ndarray
    ) -> bool:
        """Repeats the actions; returns whether they lead to the same observation."""
        self.obs[i] = self._start_episode(i, origin)
        for action in actions:
            (chosen,) = self._to_envs(action[None])
            obs, _, terminated, truncated, _ = self.envs[i].step(chosen)
            self._actions[i].append(action)
            self.obs[i] = np.ravel(obs)
            if terminated or truncated:
                return False
        return np.array_equal(self.obs[i], last)

    def close(self) -> None:
        for env in self.envs:
            env.close()


def _rng_state(env: gym.Env) -> dict[str, Any]:
    """The state of its random generator, from which an episode can be replayed."""
    return {"state": env.unwrapped.np_random.bit_generator.state}


def check_finite(name: str, values: np.ndarray) -> None:
    flat = values.ravel()
    # The dot product is the fastest check, but large numbers overflow it too.
    if not math.isfinite(flat.dot(flat)) and not np.isfinite(flat).all():
        raise FloatingPointError(f"the {name} is not finite: {values}")


def _action_scaler(space: gym.Space) -> Callable[[np.ndarray], Iterable]:
    """Maps the library's actions [N, ...] to those of N environments."""
    if isinstance(space, gym.spaces.Discrete):
        start = int(space.start)
        return lambda action: (action + start).tolist()
    assert isinstance(space, gym.spaces.Box)
    low, high = space.low, space.high
    plain = low.ndim == 1 and low.dtype == np.float32
    if plain and np.all(low == -1) and np.all(high == 1):
        return lambda action: np.minimum(np.maximum(action, low), high)  # fastest
    bounds, shape = action_space(space), (-1, *space.shape)
    return lambda action: bounds.scale(action).reshape(shape).astype(space.dtype)


def single(env_id: str, max_ep_len: int, env_kwargs: Mapping[str, Any]) -> gym.Env:
    """One environment with flat observations and actions, for a saved policy.

    Its actions have the environment's own scale, unlike those of `Environments`.
    """
    env = _make(env_id, env_kwargs)
    spec_of(env)  # raises for spaces that jaxrl does not support
    space = env.action_space
    env = gym.wrappers.FlattenObservation(env)
    if isinstance(space, gym.spaces.Box):
        flat = gym.spaces.flatten_space(space)
        shape, dtype = space.shape, space.dtype
        env = gym.wrappers.TransformAction(
            env, lambda action: np.reshape(action, shape).astype(dtype), flat
        )
    return gym.wrappers.TimeLimit(env, max_ep_len)


def misspelt(env_id: str) -> str:
    """An error if there is no such environment; empty if there may be one."""
    module, _, name = env_id.rpartition(":")
    known = {*gym.registry, *(one.rpartition("-v")[0] for one in gym.registry)}
    near = difflib.get_close_matches(name, gym.registry, 3, 0.66)
    if name in known or (module and not near):
        return ""
    other = "if a package registers it, name its module, as in my_module:MyEnv-v0"
    hint = f"did you mean {' or '.join(near)}?" if near else other
    return f"gymnasium has no environment {env_id!r}; {hint}"


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


def _make(env_id: str, env_kwargs: Mapping[str, Any]) -> gym.Env:
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*out of date.*")
            env = gym.make(name, disable_env_checker=True, **env_kwargs)
        _redirect_mujoco_warnings()
        return env
    except ModuleNotFoundError as error:
        raise ValueError(
            f"cannot import {error.name!r} for {env_id!r}; if it is in this "
            "directory and you trust it, set PYTHONPATH=."
        ) from None
    except (gym.error.Error, ImportError) as error:
        if sentence := misspelt(env_id):
            raise ValueError(sentence) from None
        reason = _newer_version(name) or " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"cannot make {env_id!r}: {reason}") from None
    except TypeError as error:
        reason = str(error).split(" was raised from")[0]
        raise ValueError(
            f"{env_id!r} does not accept {dict(env_kwargs)}: {reason}"
        ) from None
