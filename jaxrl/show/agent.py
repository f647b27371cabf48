"""The policy of a run and its environment; JAX is imported where NumPy cannot play."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxrl import envs
from jaxrl.algos import is_file
from jaxrl.errors import UserError
from jaxrl.evaluation import Act
from jaxrl.policy import Policy
from jaxrl.runs import reading
from jaxrl.runs.reading import Record
from jaxrl.spaces import EnvSpec


def load(
    directory: str | os.PathLike[str],
    model: str | int = "last",
    max_ep_len: int | None = None,
    env: envs.GivenEnv | None = None,
    *,
    code: "Code | None" = None,
    explores: bool = False,
    **drawing: Any,
) -> tuple[Any, Any]:
    """The policy of a run and its environment, as gymnasium makes it.

    `env` replaces the environment that the run names. `code` is what a policy of a
    user's own networks or algorithm may need, `explores` whether it will be asked for
    exploring actions. `drawing` are further arguments of the environment, such as its
    `render_mode`.
    """
    run = reading.record(directory)
    own = code or Code()
    needs_jax = run.needs_jax(model, explores)
    if needs_jax:
        own.check(run)
    policy = None if needs_jax else run.policy(model)
    limit = max_ep_len or run.setting("max_ep_len")
    arguments = _env_kwargs(run)
    source = run.config["env"] if env is None else env
    made, spec = environment(source, limit, arguments, drawing)
    if policy is None:
        return own.policy(run, model, spec), made
    if (spec.obs_size, spec.action) != (policy.obs_size, policy.action):
        changed = f"{run.config['env']} has changed since training"
        raise UserError(
            f"{changed if env is None else 'env is not as in training'}: the policy of "
            f"{run.path} takes {policy.obs_size} observations and gives "
            f"{policy.action}, but the environment has {spec.obs_size} and "
            f"{spec.action}"
        )
    return policy, made


def _env_kwargs(run: Record) -> dict[str, Any]:
    """As recorded; the run may be a stranger's."""
    found = run.setting("env_kwargs") or {}
    if isinstance(found, dict) and all(isinstance(name, str) for name in found):
        return found
    raise UserError(
        f"{run.path} is damaged: env_kwargs in its config.yaml is not a mapping"
    )


@dataclasses.dataclass(frozen=True)
class Code:
    """What a user gives to play a policy that NumPy cannot."""

    networks: Any = None
    """Networks, or a callable that returns them; by default those that are recorded."""
    algo: str = ""
    """The file of the run's algorithm, which is not run unless it is named here."""

    def check(self, run: Record) -> None:
        """Refuses to run an algorithm's file that only a config.yaml names."""
        recorded = run.config["algo"]
        if is_file(recorded) and not self.algo:
            raise UserError(
                f"the policy of {run.path} acts by the code in {recorded}, which is "
                f"not run unless you name it: --algo {recorded}"
            )
        if self.algo and not is_file(recorded):
            raise UserError(
                f"--algo is {self.algo}, but the run has jaxrl's {recorded}; leave it "
                "out"
            )

    def policy(self, run: Record, model: str | int, spec: EnvSpec) -> Any:
        """The policy of a model, in JAX."""
        from jaxrl.maths import user_networks
        from jaxrl.runs import directory, models

        made = directory.read(directory.config_text(run.path), self.algo)
        try:
            networks = user_networks.build(made.networks, self.networks, spec)
            return models.load(run.model(model), run.path, made, spec, networks)
        except ValueError as error:
            raise UserError(str(error)) from None


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
