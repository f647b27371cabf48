"""Gymnasium's environments: N of them in one process, or one for evaluation."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from jaxrl.envs import making
from jaxrl.envs.conversion import action_scaler, flattener, spec_of, with_flat_spaces
from jaxrl.envs.naming import GivenEnv
from jaxrl.spaces import EnvSpec


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
        envs: Sequence[gym.Env],
        seeds: Sequence[int],
        max_ep_len: int,
        closes: bool = True,
    ) -> None:
        """`closes`: whether `close` also closes the environments."""
        count = len(envs)
        self.envs, self._closes = envs, closes
        self.spec = spec_of(envs[0])
        self.finished: list[Episode] = []
        self._max_ep_len = max_ep_len
        self._flat = flattener(envs[0].observation_space)
        self._to_envs = action_scaler(envs[0].action_space)
        self._returned, self._length = [0.0] * count, [0] * count
        self.rewards = [0.0] * count  # of the last step, in double precision
        self._origins: list[dict[str, Any]] = [{} for _ in range(count)]
        self._actions: list[list[np.ndarray]] = [[] for _ in range(count)]
        self.obs = np.zeros((count, self.spec.obs_size), self.spec.obs_dtype)
        for i, own in enumerate(seeds):
            self.obs[i] = self._start_episode(i, {"seed": own})

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
            self.obs[i] = after.next_obs[i] = self._flat(obs)
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
        obs = self._flat(env.reset(seed=origin.get("seed"))[0])
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
            self.obs[i] = self._flat(obs)
            if terminated or truncated:
                return False
        return np.array_equal(self.obs[i], last)

    def close(self) -> None:
        """Closes the environments, unless they are the user's own."""
        if self._closes:
            for env in self.envs:
                env.close()


def _rng_state(env: gym.Env) -> dict[str, Any]:
    """The state of its random generator, from which an episode can be replayed."""
    return {"state": env.unwrapped.np_random.bit_generator.state}


def check_finite(name: str, values: np.ndarray) -> None:
    """Raises an error that names the first value that is not finite."""
    flat = values.ravel()
    # The dot product is the fastest check, but large numbers overflow it too.
    if not math.isfinite(flat.dot(flat)) and not np.isfinite(flat).all():
        raise FloatingPointError(f"the {name} is not finite: {values}")


def single(
    env: GivenEnv, max_ep_len: int, env_kwargs: Mapping[str, Any]
) -> tuple[gym.Env, EnvSpec]:
    """One environment with flat observations and actions, for a saved policy.

    Its actions have the environment's own scale, unlike those of `Environments`.
    """
    made = making.make(env, env_kwargs)
    spec = spec_of(made)  # raises for spaces that jaxrl does not support
    return gym.wrappers.TimeLimit(with_flat_spaces(made), max_ep_len), spec
