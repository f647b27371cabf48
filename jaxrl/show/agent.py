"""The policy of a run and its environment, loaded without JAX."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxrl import envs
from jaxrl.errors import UserError
from jaxrl.evaluation import Act
from jaxrl.policy import Policy
from jaxrl.runs import reading


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
    own = run.setting("env_kwargs") or {}
    if not isinstance(own, dict) or not all(isinstance(name, str) for name in own):
        raise UserError(f"{run.path} is damaged: its env_kwargs are no settings")
    kwargs = drawing | own
    env = environment(run.config["env"], limit, kwargs)
    spec = envs.spec_of(env)
    if (spec.obs_size, spec.action) != (policy.obs_size, policy.action):
        raise UserError(
            f"{run.config['env']} has changed since training: the policy of {run.path} "
            f"takes {policy.obs_size} observations and gives {policy.action}, but the "
            f"environment has {spec.obs_size} and {spec.action}"
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
