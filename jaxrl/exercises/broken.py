"""Checks a broken algorithm that a user mended: contracts, and one update."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import algos, contracts
from jaxrl.algos import user_files
from jaxrl.contracts.samples import fake_batch, is_on_policy, learned, leaves, start
from jaxrl.exercises.planted import BUGS, Bug
from jaxrl.types import Algorithm


def fault(path: str, number: int) -> str:
    """What is still wrong with the file; empty if it is mended."""
    bug, name = BUGS[number], user_files.absolute(path)
    algo, own = algos.get(name), algos.get(bug.algo)
    if is_on_policy(algo) != is_on_policy(own):
        return f"this is not {bug.algo}: DATA is a {type(algo.DATA).__name__}"
    return (
        _moving_target(algo, name)
        or _broken_contract(algo, bug, name)
        or _other_update(algo, own, bug)
    )


def _broken_contract(algo: Algorithm, bug: Bug, path: str) -> str:
    every = contracts.contracts(algo)
    for name in bug.contracts:
        try:
            every[name].check(algo)
        except Exception as error:  # whatever the algorithm raises
            reason = user_files.explained(error, path)
            hint = every[name].hint
            return f"the contract '{name}' fails{reason}; look at: {hint}"
    return ""


def _after(algo: Algorithm) -> tuple[Any, Any]:
    """A state and the one after an update."""
    key = jax.random.key(0)
    before = start(algo, key)
    after, _ = jax.jit(algo.update)(before, fake_batch(algo, key))
    return before, after


def _moving_target(algo: Algorithm, path: str) -> str:
    """Whether target networks move by another part of the way than tau."""
    try:
        before, after = _after(algo)
    except Exception as error:  # whatever the algorithm raises
        return f"an update fails{user_files.explained(error, path)}"
    if not hasattr(before, "target") or not hasattr(before.config, "tau"):
        return ""
    old, new = _vector(before.target), _vector(after.target)
    critic = _vector(after.critic.params)
    if old.shape != critic.shape:  # with a target of the actor too
        return ""
    way = critic - old
    part = float((new - old) @ way / (way @ way))
    tau = float(before.config.tau)
    if np.isclose(part, tau, rtol=0.01):
        return ""
    return (
        f"after one update the target critics have moved {part:.1%} of the way to the "
        f"trained ones, but tau is {tau:g}: they should move {tau:.1%}"
    )


def _vector(tree: Any) -> jax.Array:
    return jnp.concatenate([leaf.ravel() for leaf in leaves(tree)])


def _same_form(one: Any, other: Any) -> bool:
    forms: list[Any] = [jax.tree.structure(tree) for tree in (one, other)]
    shapes = [[jnp.shape(leaf) for leaf in jax.tree.leaves(x)] for x in (one, other)]
    return forms[0] == forms[1] and shapes[0] == shapes[1]


def _other_update(algo: Algorithm, own: Algorithm, bug: Bug) -> str:
    """Which networks one update changes in another way than jaxrl's own."""
    results = [learned(_after(each)[1]) for each in (algo, own)]
    for name, expected in results[1].items():
        got = results[0].get(name)
        if not _same_form(got, expected):
            return f"the state has other parameters of the {name} than jaxrl's own"
        pairs = zip(leaves(got), leaves(expected), strict=True)
        if not all(np.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in pairs):
            return (
                f"one update gives other parameters of the {name} than that of "
                f"jaxrl's own {bug.algo}; look at the loss of the {name} and at what "
                "goes into it"
            )
    return ""
