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
from jaxrl.spaces import EnvSpec


def load(
    directory: str | os.PathLike[str],
    model: str | int = "last",
    max_ep_len: int | None = None,
    env: envs.GivenEnv | None = None,
    **drawing: Any,
) -> tuple[Policy, Any]:
    """The policy of a run and its environment, as gymnasium makes it.

    `env` replaces the environment that the run names. `drawing` are further arguments
    of the environment, such as its `render_mode`.
    """
    run = reading.record(directory)
    policy = run.policy(model)
    limit = max_ep_len or run.setting("max_ep_len")
    own = run.setting("env_kwargs") or {}
    if not isinstance(own, dict) or not all(isinstance(name, str) for name in own):
        raise UserError(f"{run.path} is damaged: its env_kwargs are no settings")
    source = run.config["env"] if env is None else env
    made, spec = environment(source, limit, own, drawing)
    if (spec.obs_size, spec.action) != (policy.obs_size, policy.action):
        changed = f"{run.config['env']} has changed since training"
        raise UserError(
            f"{changed if env is None else 'env is not as in training'}: the policy of "
            f"{run.path} takes {policy.obs_size} observations and gives "
            f"{policy.action}, but the environment has {spec.obs_size} and "
            f"{spec.action}"
        )
    return policy, made


def environment(
    env: envs.GivenEnv,
    max_ep_len: int,
    env_kwargs: Mapping[str, Any],
    drawing: Mapping[str, Any],
) -> tuple[Any, EnvSpec]:
    """As gymnasium makes it; arguments for `drawing` only where it takes them."""
    if envs.is_instance(env):
        env_kwargs, drawing = {}, {}
    drawing = {name: x for name, x in drawing.items() if envs.takes(env, name)}
    try:
        return envs.single_with_spec(env, max_ep_len, {**drawing, **env_kwargs})
    except ValueError as error:
        raise UserError(str(error)) from None


def exploring(policy: Policy, seed: int) -> Act:
    """The policy with the noise it was trained with."""
    rng = np.random.default_rng(seed)
    return lambda obs: policy(obs, rng)
