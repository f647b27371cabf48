"""Small settings, made-up batches and comparisons for the contracts."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.types import Algorithm, Box, Discrete, EnvSpec, OnPolicy, Transition

SPEC = EnvSpec(obs_size=3, action=Box((-1.0, -1.0), (1.0, 1.0)))
BINARY = EnvSpec(obs_size=3, action=Discrete(2))


def is_on_policy(algo: Algorithm) -> bool:
    """Whether it learns from rollouts."""
    return isinstance(algo.DATA, OnPolicy)


def small_config(algo: Algorithm, **changes: Any) -> Any:
    """Settings that compile quickly and leave out nothing."""
    names = algo.Config.__dataclass_fields__
    small = {"hidden": (8,), "train_v_iters": 3, "train_pi_iters": 3, "minibatches": 2}
    fitting = {name: value for name, value in small.items() if name in names}
    return algo.Config(**fitting | changes)


def has_setting(algo: Algorithm, name: str) -> bool:
    """Whether its Config has the field."""
    return name in algo.Config.__dataclass_fields__


def start(algo: Algorithm, key: jax.Array, **changes: Any) -> Any:
    """A small initial state."""
    return algo.init(key, SPEC, small_config(algo, **changes))


def fake_batch(
    algo: Algorithm, key: jax.Array, spec: EnvSpec = SPEC, lead: tuple | None = None
) -> Transition:
    """Random transitions, [8, 4] for a rollout and [16] for a replayed batch."""
    lead = lead or ((8, 4) if is_on_policy(algo) else (16,))
    obs, action, reward, next_obs, ends = jax.random.split(key, 5)
    if isinstance(spec.action, Box):
        actions = jax.random.uniform(action, (*lead, spec.action.size), minval=-1)
    else:
        actions = jax.random.randint(action, lead, 0, spec.action.size)
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


def signature(tree: Any) -> tuple[Any, list[tuple]]:
    """Structure, shapes, dtypes and weak types."""
    described = [
        (x.shape, x.dtype, getattr(x, "weak_type", False))
        for x in jax.tree.leaves(tree)
    ]
    return jax.tree.structure(tree), described


def changed_parts(before: Any, after: Any) -> list[str]:
    """The names of the leaves whose shape, dtype or weak type is another."""
    flat = [jax.tree_util.tree_flatten_with_path(tree)[0] for tree in (before, after)]
    described = [{jax.tree_util.keystr(k): _kind(x) for k, x in one} for one in flat]
    names = described[0] | described[1]
    return [
        f"{name} was {described[0].get(name)} and is {described[1].get(name)}"
        for name in names
        if described[0].get(name) != described[1].get(name)
    ]


def _kind(x: Any) -> str:
    weak = ", weak" if getattr(x, "weak_type", False) else ""
    return f"{x.dtype}{list(x.shape)}{weak}"


def same_bits(one: Any, other: Any) -> bool:
    """Whether two trees have equal leaves, bit for bit."""
    return all(
        np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True)
    )


def assert_close(one: Any, other: Any, tolerance: float) -> None:
    """Names the first leaf that differs by more, absolutely and relatively."""
    flat, _ = jax.tree_util.tree_flatten_with_path(one)
    for (path, _), a, b in zip(flat, leaves(one), leaves(other), strict=True):
        assert_near(a, b, jax.tree_util.keystr(path), tolerance, tolerance)


def assert_near(got: Any, expected: Any, what: str, atol: float, rtol: float) -> None:
    """Raises with the worst of the numbers that differ."""
    got, expected = np.asarray(got), np.asarray(expected)
    near = np.allclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)
    if not near:
        worst = np.unravel_index(np.argmax(np.abs(got - expected)), got.shape)
        value, wanted = got[worst], np.broadcast_to(expected, got.shape)[worst]
        raise AssertionError(f"{what} is {value:.6g} and not {wanted:.6g}")


def learned(state: Any) -> dict[str, Any]:
    """The parameters of the actor and the critic; else all of the state but settings.

    A user's state may have other parts.
    """
    parts: dict[str, Any] = {
        name: getattr(state, name, None) for name in ("actor", "critic")
    }
    known = {k: x.params for k, x in parts.items() if hasattr(x, "params")}
    return known or {"state": dataclasses.replace(state, config=None)}


def row(tree: Any, i: int) -> Any:
    """One row of every leaf."""
    return jax.tree.map(lambda x: x[i], tree)
