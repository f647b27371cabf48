"""What training relies on in `update`: each function raises where it does not hold."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.contracts.samples import (
    assert_close,
    changed_parts,
    fake_batch,
    has_setting,
    is_on_policy,
    learned,
    leaves,
    row,
    same_bits,
    signature,
    start,
)
from jaxrl.types import Algorithm, Transition


def keeps_shapes(algo: Algorithm) -> None:
    """The new state has the shapes, dtypes and weak types of the old one."""
    key = jax.random.key(0)
    state = start(algo, key)
    after, _ = jax.jit(algo.update)(state, fake_batch(algo, key))
    changed = changed_parts(state, after)
    assert not changed, changed[0]
    assert signature(after) == signature(state), "the structure of the state changes"
    weak = [kind for _, _, kind in signature(state)[1]]
    assert not any(weak), "init makes weakly typed arrays; give them a dtype"


def follows_precision(algo: Algorithm) -> None:
    """With jax_enable_x64 all real numbers are float64."""
    with jax.enable_x64(True):
        key = jax.random.key(0)
        state = start(algo, key)
        after, metrics = jax.jit(algo.update)(state, fake_batch(algo, key))
        changed = changed_parts(state, after)
        assert not changed, changed[0]
        real = [
            x for x in leaves((after, metrics)) if jnp.issubdtype(x.dtype, jnp.floating)
        ]
        kinds = {x.dtype for x in real}
        assert kinds == {np.dtype("float64")}, f"some are {kinds}"


def learns_finitely(algo: Algorithm) -> None:
    """One update changes the parameters, and all numbers are finite."""
    key = jax.random.key(0)
    state = start(algo, key)
    with jax.debug_nans(True):
        after, metrics = jax.jit(algo.update)(state, fake_batch(algo, key))
    rest = dataclasses.replace(after, config=None)
    finite = [np.isfinite(x).all() for x in leaves((rest, metrics))]
    assert all(finite), "a number is not finite"
    before = learned(state)
    for name, params in learned(after).items():
        assert not same_bits(params, before[name]), f"{name} does not change"


def is_pure(algo: Algorithm) -> None:
    """The same state and batch give the same bits, also when it is traced again."""
    key = jax.random.key(0)
    state, batch = start(algo, key), fake_batch(algo, key)
    before = [np.array(x) for x in leaves(state)]
    update, traced_again = (jax.jit(lambda *args: algo.update(*args)) for _ in range(2))
    once, again = update(state, batch), update(state, batch)
    assert same_bits(once, again), "two calls differ"
    third = traced_again(state, batch)
    assert same_bits(once, third), "two traces differ: it reads something that changes"
    same = all(map(np.array_equal, before, leaves(state)))
    assert same, "the state that was given has changed"
    with jax.checking_leaks():
        jax.jit(lambda *args: algo.update(*args)).lower(state, batch)


def runs_without_jit(algo: Algorithm) -> None:
    """Without jit it gives the same, up to rounding."""
    key = jax.random.key(0)
    state, batch = start(algo, key), fake_batch(algo, key)
    assert_close(algo.update(state, batch), jax.jit(algo.update)(state, batch), 1e-4)


def compiles_once(algo: Algorithm) -> None:
    """One program serves all states and all values of real settings."""
    key = jax.random.key(0)
    calls: list[None] = []

    def counted(state: Any, batch: Transition) -> Any:
        calls.append(None)
        return algo.update(state, batch)

    update: Any = jax.jit(counted)
    for seed, gamma in enumerate([0.99, 0.9, 0.5]):
        changes = {"gamma": gamma} if has_setting(algo, "gamma") else {}
        state = start(algo, jax.random.key(seed), **changes)
        for _ in range(2):
            state, _ = update(state, fake_batch(algo, key))
    assert len(calls) == 1, f"it was traced {len(calls)} times in 6 calls"
    assert update._cache_size() == 1, f"it was compiled {update._cache_size()} times"


def accepts_donation(algo: Algorithm) -> None:
    """A donated state gives the same, and its memory is reused."""
    key = jax.random.key(0)
    batch = fake_batch(algo, key)
    expected, _ = jax.jit(algo.update)(start(algo, key), batch)
    expected, _ = jax.jit(algo.update)(expected, batch)
    update = jax.jit(algo.update, donate_argnums=0)
    state = start(algo, key)
    first = jax.tree.leaves(learned(state))[0]
    for _ in range(2):
        state, _ = update(state, batch)
    assert first.is_deleted(), "the memory of the parameters is not reused"
    assert same_bits(state, expected), "the result is another"
    start(algo, key)  # the key and the default settings were not donated


def maps_over_seeds(algo: Algorithm) -> None:
    """`jax.vmap` over states gives what each state gives alone."""
    keys = jax.random.split(jax.random.key(0), 3)
    batches = jax.vmap(partial(fake_batch, algo))(keys)
    states = jax.vmap(partial(start, algo))(keys)
    together, _ = jax.jit(jax.vmap(algo.update))(states, batches)
    for i in range(3):
        alone, _ = jax.jit(algo.update)(start(algo, keys[i]), row(batches, i))
        assert_close(row(together, i), alone, 1e-4)


def maps_over_settings(algo: Algorithm) -> None:
    """`jax.vmap` over a real setting gives what each value gives alone."""
    key = jax.random.key(0)
    if not has_setting(algo, "gamma"):
        return
    gammas, batch = jnp.array([0.0, 0.5, 0.99]), fake_batch(algo, key)

    def one(gamma: jax.Array) -> dict:
        return learned(algo.update(start(algo, key, gamma=gamma), batch)[0])

    together = jax.jit(jax.vmap(one))(gammas)
    for i, gamma in enumerate(gammas):
        assert_close(row(together, i), jax.jit(one)(gamma), 1e-4)
    assert not same_bits(row(together, 0), row(together, 2)), "gamma changes nothing"


def runs_in_a_scan(algo: Algorithm) -> None:
    """`jax.lax.scan` gives what one update after another gives."""
    key = jax.random.key(0)
    batches = jax.vmap(partial(fake_batch, algo))(jax.random.split(key, 3))
    scanned, metrics = jax.jit(partial(jax.lax.scan, algo.update))(
        start(algo, key), batches
    )
    state = start(algo, key)
    for i in range(3):
        state, last = jax.jit(algo.update)(state, row(batches, i))
    assert_close(scanned, state, 1e-4)
    assert_close(row(metrics, -1), last, 1e-3)


def splits_over_devices(algo: Algorithm) -> None:
    """Two devices with half a batch each give the result of one with all of it."""
    with jax.enable_x64(True):
        key = jax.random.key(0)
        batches = [fake_batch(algo, k) for k in jax.random.split(key, 4)]
        alone, pair = start(algo, key), start(algo, key)
        pmean = partial(jax.lax.pmean, axis_name="devices")
        update = jax.pmap(
            lambda state, batch: algo.update(state, batch, pmean=pmean),
            axis_name="devices",
        )
        pair = jax.tree.map(lambda x: jnp.stack([x, x]), pair)
        for batch in batches:
            alone, _ = jax.jit(algo.update)(alone, batch)
            pair, _ = update(pair, _halves(algo, batch))
        copies = [row(jax.device_get(_plain(pair)), i) for i in range(2)]
        for copy in copies:
            assert_close(copy, jax.device_get(_plain(alone)), 1e-9)
        assert same_bits(*copies), "the two copies of the state differ"


def _halves(algo: Algorithm, batch: Transition) -> Transition:
    """[2, ...]: the environments of a rollout, or the transitions, in two halves."""
    axis = 1 if is_on_policy(algo) else 0
    return jax.tree.map(lambda x: jnp.stack(jnp.split(x, 2, axis)), batch)


def _plain(state: object) -> object:
    """The same tree with keys as their numbers."""
    return jax.tree.unflatten(jax.tree.structure(state), leaves(state))


def bootstraps(algo: Algorithm) -> None:
    """A truncated step is bootstrapped from `next_obs`, a terminated one is not."""
    key = jax.random.key(0)
    state = start(algo, key)
    if "critic" not in learned(state):
        return
    batch = fake_batch(algo, key)
    never = jnp.zeros_like(batch.terminated)
    update = jax.jit(algo.update)

    def critic_after(scale: float, terminated: jax.Array, truncated: jax.Array) -> dict:
        ends = {"terminated": terminated, "truncated": truncated}
        changed = batch._replace(next_obs=scale * batch.next_obs, **ends)
        return learned(update(state, changed)[0])["critic"]

    ended, limited = (~never, never), (never, ~never)
    if is_on_policy(algo):  # off-policy noise also depends on `next_obs`
        same = same_bits(critic_after(1, *ended), critic_after(2, *ended))
        assert same, "next_obs matters after a terminated step"
    same = same_bits(critic_after(1, *limited), critic_after(2, *limited))
    assert not same, "next_obs does not matter after a truncated step"
    same = same_bits(critic_after(1, *ended), critic_after(1, *limited))
    assert not same, "terminated and truncated steps are treated alike"
