"""Host-side buffers: rollouts for on-policy, replay for off-policy algorithms."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxrl.envs.gym import Stepped
from jaxrl.types import Box, EnvSpec, Transition


class Rollout:
    """[T, N] steps, filled in order; the batch of one update."""

    def __init__(self, steps: int, count: int, spec: EnvSpec) -> None:
        real = isinstance(spec.action, Box)
        shape, wide = spec.action.shape, (steps, count, spec.obs_size)
        fields: list[Any] = [
            np.zeros(wide, spec.obs_dtype),
            np.zeros((steps, count, *shape), np.float32 if real else np.int32),
            np.zeros((steps, count), np.float32),
            np.zeros(wide, spec.obs_dtype),
            np.zeros((steps, count), bool),
            np.zeros((steps, count), bool),
        ]
        self.data = Transition(*fields)
        self.filled = 0

    def insert(self, obs: np.ndarray, action: np.ndarray, after: Stepped) -> None:
        """A step of each of N environments."""
        places: Any = self.data
        for place, value in zip(places, (obs, action, *after), strict=True):
            place[self.filled] = value
        self.filled += 1

    def take(self) -> Transition:
        """All steps; the next `insert` starts a new rollout."""
        self.filled = 0
        return self.data

    def state(self) -> dict[str, Any]:
        """The steps so far, for a checkpoint."""
        return {"steps": [np.array(field[: self.filled]) for field in self.data]}

    def restore(self, saved: Mapping[str, Any]) -> None:
        places: Any = self.data
        for place, values in zip(places, saved["steps"], strict=True):
            self.filled = len(values)
            place[: self.filled] = values


class HostReplay:
    """The last `capacity` transitions, one row of floats each: one gather samples them.

    A row is obs, action, reward, next_obs, terminated. Memory is allocated as it fills.
    """

    def __init__(self, capacity: int, spec: EnvSpec) -> None:
        self._obs, self._action = spec.obs_size, spec.action.size
        width = 2 * spec.obs_size + spec.action.size + 2
        self.rows = np.zeros((capacity, width), np.float32)
        self.inserted = 0

    def insert(self, obs: np.ndarray, action: np.ndarray, after: Stepped) -> None:
        """A step of each of N environments in place of the oldest."""
        a, r, n = self._obs, self._obs + self._action, self._obs + self._action + 1
        capacity = len(self.rows)
        for i in range(len(obs)):
            row = self.rows[self.inserted % capacity]
            row[:a], row[a:r], row[r] = obs[i], action[i], after.reward[i]
            row[n:-1], row[-1] = after.next_obs[i], after.terminated[i]
            self.inserted += 1

    def sample(self, rng: np.random.Generator, *shape: int) -> np.ndarray:
        """Rows [*shape, width], drawn evenly with replacement."""
        filled = min(self.inserted, len(self.rows))
        return self.rows.take(rng.integers(filled, size=shape), axis=0)

    def since(self, first: int) -> tuple[np.ndarray, int]:
        """Copies of the rows inserted from `first` on and still here; their first."""
        first = max(first, self.inserted - len(self.rows))
        return self.rows.take(range(first, self.inserted), axis=0, mode="wrap"), first

    def restore(self, rows: np.ndarray, first: int) -> None:
        """Puts back rows that were inserted from `first` on."""
        self.rows[np.arange(first, first + len(rows)) % len(self.rows)] = rows
        self.inserted = first + len(rows)


def unpack(rows: jax.Array, obs_size: int) -> Transition:
    """Transitions [...] from the replay buffer's rows [..., width]."""
    obs, next_obs = rows[..., :obs_size], rows[..., -obs_size - 1 : -1]
    action, reward = rows[..., obs_size : -obs_size - 2], rows[..., -obs_size - 2]
    terminated = rows[..., -1] > 0
    return Transition(obs, action, reward, next_obs, terminated, terminated & False)


def pack(batch: Transition) -> np.ndarray:
    """The replay buffer's rows [n, width] of transitions [n]; `unpack` reverses it."""
    numbers = [batch.reward[:, None], batch.next_obs, batch.terminated[:, None]]
    return np.concatenate([batch.obs, batch.action, *numbers], 1, dtype=np.float32)
