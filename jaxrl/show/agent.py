"""A trained agent at work: the policy and the environment of a run, and its episodes.

Free of JAX, so that it starts at once.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxrl import envs
from jaxrl.errors import UserError
from jaxrl.policy import Policy
from jaxrl.runs import reading

Act = Callable[[np.ndarray], Any]


class Moment(NamedTuple):
    """How far an episode is, counted from 1; `over` at its last step."""

    episode: int
    returned: float
    length: int
    over: bool


def load(
    directory: str | os.PathLike[str],
    model: str | int = "last",
    max_ep_len: int | None = None,
    **drawing: Any,
) -> tuple[Policy, Any]:
    """The policy of a run and its environment, as gymnasium makes it.

    `drawing` are further arguments of the environment, such as its `render_mode`.
    """
    run = reading.record(directory)
    policy = run.policy(model)
    limit = max_ep_len or run.setting("max_ep_len")
    kwargs = drawing | (run.setting("env_kwargs") or {})
    env = environment(run.config["env"], limit, kwargs)
    spec = envs.spec_of(env)
    if (spec.obs_size, spec.action) != (policy.obs_size, policy.action):
        raise UserError(
            f"{run.config['env']} is not as it was: the policy of {run.path} takes "
            f"{policy.obs_size} observations for {policy.action}, and it has "
            f"{spec.obs_size} for {spec.action}"
        )
    return policy, env


def environment(env_id: str, max_ep_len: int, env_kwargs: Mapping[str, Any]) -> Any:
    """As gymnasium makes it."""
    try:
        return envs.single(env_id, max_ep_len, env_kwargs)
    except ValueError as error:
        raise UserError(str(error)) from None


def exploring(policy: Policy, seed: int) -> Act:
    """The policy with the noise it was trained with."""
    rng = np.random.default_rng(seed)
    return lambda obs: policy(obs, rng)


def play(act: Act, env: Any, episodes: int, seed: int) -> Iterator[Moment]:
    """Every step of so many episodes, of which the first is seeded."""
    for episode in range(episodes):
        obs, _ = env.reset(seed=None if episode else seed)
        returned = 0.0
        for length in itertools.count(1):
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            returned += float(reward)
            over = bool(terminated or truncated)
            yield Moment(episode + 1, returned, length, over)
            if over:
                break


def evaluate_policy(
    act: Act, env: Any, episodes: int = 10, seed: int = 0
) -> tuple[float, float]:
    """Mean and standard deviation of the returns of `episodes` episodes."""
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}, but must be 1 or more")
    moments = play(act, env, episodes, seed)
    returns = [moment.returned for moment in moments if moment.over]
    return float(np.mean(returns)), float(np.std(returns))
