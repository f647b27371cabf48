"""What training relies on in `init` and `act`: each function raises if it fails."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.contracts.samples import (
    BINARY,
    SPEC,
    assert_close,
    assert_near,
    changed_parts,
    fake_batch,
    is_on_policy,
    learned,
    same_bits,
    small_config,
    start,
)
from jaxrl.types import Algorithm


def acts_greedily_or_explores(algo: Algorithm) -> None:
    """`act` is greedy without a key and explores with one, each time alike."""
    key = jax.random.key(0)
    state, obs = start(algo, key), fake_batch(algo, key).obs
    greedy = algo.act(state, obs)
    expected = (*obs.shape[:-1], SPEC.action.size)
    assert greedy.shape == expected, f"an action has shape {greedy.shape}"
    assert np.array_equal(greedy, algo.act(state, obs)), "two greedy actions differ"
    one, other = (algo.act(state, obs, jax.random.key(seed)) for seed in (1, 2))
    assert not np.array_equal(one, greedy), "it does not explore with a key"
    assert not np.array_equal(one, other), "two keys give the same action"
    again = algo.act(state, obs, jax.random.key(1))
    assert np.array_equal(one, again), "one key gives two actions"


def acts_for_one_or_many(algo: Algorithm) -> None:
    """`act` takes one observation or many."""
    state, obs = start(algo, jax.random.key(0)), jnp.ones((5, 3))
    many = algo.act(state, obs)
    assert_near(many[0], algo.act(state, obs[0]), "the action of one", 0, 1e-5)


def acts_within_bounds(algo: Algorithm) -> None:
    """Actions of an off-policy algorithm are in [-1, 1]."""
    if is_on_policy(algo):  # a Gaussian policy is clipped by the environment
        return
    key = jax.random.key(0)
    state = start(algo, key)
    action = algo.act(state, 100 * jax.random.normal(key, (200, 3)), key)
    largest = np.abs(action).max()
    assert largest <= 1, f"an action is {largest}"


def takes_or_refuses_discrete(algo: Algorithm) -> None:
    """Discrete actions work, or `init` refuses them with a ValueError."""
    key = jax.random.key(0)
    try:
        state = algo.init(key, BINARY, small_config(algo))
    except ValueError:
        assert not is_on_policy(algo), "init refuses them, but rollouts can have them"
        return
    batch = fake_batch(algo, key, BINARY)
    after, _ = jax.jit(algo.update)(state, batch)
    changed = changed_parts(state, after)
    assert not changed, changed[0]
    before = learned(state)
    for name, params in learned(after).items():
        assert not same_bits(params, before[name]), f"{name} does not change"
    action = algo.act(after, batch.obs, key)
    assert jnp.issubdtype(action.dtype, jnp.integer), f"an action is {action.dtype}"
    assert set(np.unique(action)) == {0, 1}, "it does not explore both actions"


def init_depends_on_key(algo: Algorithm) -> None:
    """Equal keys give equal states, other keys other parameters."""
    one, same, other = (start(algo, jax.random.key(seed)) for seed in (0, 0, 1))
    assert same_bits(one, same), "the same key gives two states"
    first, second = (jax.tree.leaves(learned(x)) for x in (one, other))
    assert not same_bits(first, second), "another key gives the same parameters"


def init_runs_under_jit(algo: Algorithm) -> None:
    """`init` can be compiled."""
    key = jax.random.key(0)
    jitted = jax.jit(algo.init, static_argnums=1)(key, SPEC, small_config(algo))
    assert_close(jitted, start(algo, key), 1e-6)
