"""Episodes of a policy: for test episodes in training, `eval`, videos and users.

Free of JAX, so that it starts at once.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxrl.errors import UserError

Act = Callable[[np.ndarray], Any]


class EpisodeStep(NamedTuple):
    """A step of an episode, both counted from 1; `over` in its last step."""

    episode: int
    returned: float
    length: int
    over: bool


def play(
    act: Act, env: Any, episodes: int, seed: int | None = None
) -> Iterator[EpisodeStep]:
    """Every step of `episodes` episodes in a gymnasium environment; seeds the first."""
    for episode in range(episodes):
        obs, _ = env.reset(seed=None if episode else seed)
        returned = 0.0
        for length in itertools.count(1):
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            returned += float(reward)
            over = bool(terminated or truncated)
            yield EpisodeStep(episode + 1, returned, length, over)
            if over:
                break


def evaluate_policy(
    act: Act, env: Any, num_test_episodes: int = 10, seed: int = 0
) -> tuple[float, float]:
    """Mean and standard deviation of the returns of `num_test_episodes` episodes."""
    check_policy(act, seed)
    if not all(hasattr(env, name) for name in ("reset", "step")):
        raise UserError(
            f"env is {env!r:.80}, but must be a gymnasium environment, as jaxrl.load "
            "returns it"
        )
    if type(num_test_episodes) is not int or num_test_episodes < 1:
        given = f"num_test_episodes is {num_test_episodes!r}"
        raise UserError(f"{given}, but must be a whole number >= 1")
    steps = play(act, env, num_test_episodes, seed)
    returns = [step.returned for step in steps if step.over]
    return float(np.mean(returns)), float(np.std(returns))


def check_policy(act: Any, seed: Any) -> None:
    """Refuses what cannot act, and what cannot seed an environment."""
    if not callable(act):
        raise UserError(
            f"policy is {act!r:.80}, but must be a function of an observation that "
            "gives an action, as jaxrl.load returns it"
        )
    if type(seed) is not int or seed < 0:
        raise UserError(f"seed is {seed!r}, but must be a whole number >= 0")


class SelfResetting:
    """A batch of one of the library's environments, with gymnasium's methods.

    The batch resets itself when an episode ends, so `reset` only returns its
    observation. Observations and actions keep the batch's leading dimension.
    """

    def __init__(self, envs: Any) -> None:
        self._envs = envs

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict]:
        """The current observation; the environments start episodes themselves."""
        assert seed is None
        return self._envs.obs, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Steps the environment."""
        after = self._envs.step(action)
        self._envs.take_finished()  # `play` counts for itself
        (reward,), (terminated,), (truncated,) = (
            self._envs.rewards,
            after.terminated,
            after.truncated,
        )
        return self._envs.obs, reward, terminated, truncated, {}
