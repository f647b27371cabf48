"""What is compiled for a JAX environment: an algorithm, its environment, its data."""

import dataclasses
import fractions
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxrl import checks
from jaxrl.envs import jax_batch
from jaxrl.envs.jax import JaxEnv
from jaxrl.training.share import exact_ratio
from jaxrl.types import Algorithm, OffPolicy, OnPolicy, Pmean, identity

SHARED = ("steps_per_epoch", "update_every", "batch_size", "replay_size")
"""Settings that count all shards together."""


class Program(NamedTuple):
    """What is compiled: an algorithm in an environment."""

    algo: Algorithm
    env: JaxEnv
    data: OnPolicy | OffPolicy  # of one shard
    pmean: Pmean = identity
    shards: int = 1
    """Devices of all ranks that learn together, each with its environments."""

    @property
    def limit(self) -> int:
        return jax_batch.time_limit(self.env, self.data.max_ep_len)

    @property
    def updates(self) -> fractions.Fraction:
        """Off-policy, in a round on average: whole ones are made, the rest is kept."""
        data: Any = self.data
        steps = data.update_every * self.shards
        return steps * exact_ratio(data.updates_per_step)

    @property
    def rounds(self) -> int:
        """Of an epoch: steps of all environments, or off-policy rounds of updates."""
        if isinstance(self.data, OnPolicy):
            return self.data.steps_per_epoch // self.data.num_envs
        return self.data.steps_per_epoch // self.data.update_every


def make_program(
    algo: Algorithm,
    env: JaxEnv,
    data: OnPolicy | OffPolicy | None = None,
    ranks: int = 1,
    devices: int = 1,
) -> Program:
    """Refuses settings that would drop steps or updates.

    `data` is that of all `ranks` and their `devices`, which share it; each rank has
    `num_envs` environments.
    """
    data = checks.config(algo.DATA if data is None else data, type(algo.DATA))
    shards = ranks * devices
    data = _shard(data, {"num_envs": devices} | dict.fromkeys(SHARED, shards))
    if ranks > 1 and isinstance(data, OffPolicy):  # as many as the ranks' environments
        steps = -(-data.update_every // data.num_envs) * data.num_envs
        data = dataclasses.replace(data, update_every=steps)
    divisors = [("steps_per_epoch", "num_envs")]
    if isinstance(data, OffPolicy):
        divisors = [("steps_per_epoch", "update_every"), ("update_every", "num_envs")]
    for name, divisor_name in divisors:
        value, divisor = getattr(data, name), getattr(data, divisor_name)
        if value % divisor:
            raise ValueError(
                f"{name} is {value}, but must be a multiple of {divisor_name}, "
                f"which is {divisor}"
                + (f", in each of {shards} shares" if shards > 1 else "")
            )
    if isinstance(data, OffPolicy) and data.update_every > data.replay_size:
        raise ValueError(
            f"replay_size is {data.replay_size}, but must be at least update_every, "
            f"which is {data.update_every}"
        )
    return Program(algo, env, data, shards=shards)


def _shard(data: Any, shares: Mapping[str, int]) -> Any:
    """The data of one shard: each of the settings, divided."""
    own = {}
    for name, count in shares.items():
        if not hasattr(data, name):
            continue
        value = getattr(data, name)
        if value % count and name != "replay_size":
            raise ValueError(
                f"{name} is {value}, but must be a multiple of {count} to be shared "
                f"by {count} learners"
            )
        own[name] = max(value // count, 1)
    return dataclasses.replace(data, **own)
