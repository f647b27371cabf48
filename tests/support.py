"""What several tests need: small settings, made-up batches."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxrl import algos
from jaxrl.types import Algorithm, Box, EnvSpec, OnPolicy, Transition

SPEC = EnvSpec(obs_size=3, action=Box((-1.0, -1.0), (1.0, 1.0)))

algorithms = pytest.mark.parametrize(
    "algo", [algos.get(name) for name in algos.NAMES], ids=algos.NAMES
)


def is_on_policy(algo: Algorithm) -> bool:
    return isinstance(algo.DATA, OnPolicy)


def small_config(algo: Algorithm, **changes: Any) -> Any:
    """Settings that compile quickly and leave out nothing."""
    names = algo.Config.__dataclass_fields__
    small = {"hidden": (8,), "train_v_iters": 3, "train_pi_iters": 3, "minibatches": 2}
    fitting = {name: value for name, value in small.items() if name in names}
    return algo.Config(**fitting | changes)


def fake_batch(
    algo: Algorithm, key: jax.Array, spec: EnvSpec = SPEC, lead: tuple | None = None
) -> Transition:
    """Random transitions, [8, 4] for a rollout and [16] for a replayed batch."""
    lead = lead or ((8, 4) if is_on_policy(algo) else (16,))
    obs, action, reward, next_obs, ends = jax.random.split(key, 5)
    if isinstance(spec.action, Box):
        actions = jax.random.uniform(action, (*lead, spec.action.size), minval=-1)
    else:
        actions = jax.random.randint(action, lead, 0, spec.action.n)
    kind = jax.random.uniform(ends, lead)
    return Transition(
        obs=jax.random.normal(obs, (*lead, spec.obs_size)),
        action=actions,
        reward=jax.random.normal(reward, lead),
        next_obs=jax.random.normal(next_obs, (*lead, spec.obs_size)),
        terminated=kind < 0.1,
        truncated=kind > 0.9,
    )


def leaves(tree: Any) -> list[jax.Array]:
    """The leaves as plain arrays, keys included."""
    return [
        jax.random.key_data(leaf)
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        else leaf
        for leaf in jax.tree.leaves(tree)
    ]
