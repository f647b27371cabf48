"""EnvPool's environments: stepped together, in C++."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxrl.envs.conversion import spec_of
from jaxrl.envs.gym import Episode, Stepped, check_finite

PREFIX = "envpool/"


class Pool:
    """N environments of EnvPool, each reset as soon as its episode ends."""

    def __init__(
        self, make_pool: Callable[[int], Any], seed: int, max_ep_len: int
    ) -> None:
        """`make_pool` makes EnvPool's N environments from a seed."""
        self._make_pool, self._seed = make_pool, seed
        self._pool = make_pool(seed)
        self.spec = spec_of(self._pool)
        first = self._pool.reset()[0]
        if not isinstance(first, np.ndarray):
            raise ValueError(
                "jaxrl takes Box observations from EnvPool, but this environment gives "
                f"{type(first).__name__}s; use gymnasium's environment"
            )
        self.obs = self._flat(first)
        count = len(self.obs)
        self.finished: list[Episode] = []
        self._max_ep_len = max_ep_len
        self._returned, self._length = np.zeros(count), np.zeros(count, int)
        self.rewards = [0.0] * count  # of the last step, as EnvPool gives them
        self._steps = 0

    def step(self, action: np.ndarray) -> Stepped:
        """Steps each environment; adds finished episodes to `finished`."""
        check_finite("action", action)
        obs, reward, terminated, truncated, _ = self._pool.step(
            self.spec.action.scale(action)
        )
        self._returned += reward
        self.rewards = reward.tolist()
        self._length += 1
        self._steps += 1
        truncated = (truncated | (self._length >= self._max_ep_len)) & ~terminated
        after = Stepped(
            reward.astype(np.float32), self._flat(obs), terminated, truncated
        )
        check_finite("reward", after.reward)
        check_finite("observation", after.next_obs)
        self.obs = after.next_obs.copy()
        over = np.flatnonzero(terminated | truncated).astype(np.int32)
        if len(over):
            for i in over:
                episode = Episode(float(self._returned[i]), int(self._length[i]))
                self.finished.append(episode)
            self._returned[over], self._length[over] = 0, 0
            self.obs[over] = self._flat(self._pool.reset(over)[0])
        return after

    def take_finished(self) -> list[Episode]:
        """The episodes finished since the last call."""
        finished, self.finished = self.finished, []
        return finished

    def saved(self) -> dict[str, Any]:
        """EnvPool cannot save environments: only the steps and finished episodes."""
        finished = [list(episode) for episode in self.finished]
        return {"steps": self._steps, "finished": finished}

    def restore(self, saved: Mapping[str, Any]) -> list[int]:
        """Resets all environments with new seeds, and returns their indices."""
        self.finished = [Episode(*episode) for episode in saved["finished"]]
        self._steps, count = saved["steps"], len(self._length)
        self._pool.close()
        seed = np.random.SeedSequence((self._seed, self._steps)).generate_state(1)
        self._pool = self._make_pool(int(seed[0]))
        self.obs = self._flat(self._pool.reset()[0])
        return list(range(count))

    def close(self) -> None:
        """Ends EnvPool's threads."""
        self._pool.close()

    def _flat(self, obs: np.ndarray) -> np.ndarray:
        return obs.reshape(len(obs), -1).astype(self.spec.obs_dtype)


def make(env_id: str, count: int, env_kwargs: Mapping[str, Any], seed: int) -> Any:
    """EnvPool's own object for `count` environments."""
    name = env_id.removeprefix(PREFIX)
    try:
        import envpool
    except ImportError:
        raise ValueError(
            f"{env_id} needs the package envpool; install it with pip install "
            "'jaxrl[envpool]'"
        ) from None
    if name not in envpool.list_all_envs():
        raise ValueError(
            f"EnvPool has no environment {name!r}; envpool.list_all_envs() lists them"
        )
    return envpool.make(
        name,
        env_type="gymnasium",
        num_envs=count,
        seed=seed % 2**31,
        **env_kwargs,
    )
