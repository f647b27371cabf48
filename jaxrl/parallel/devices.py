"""Devices of this process that share each update, by pmap."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxrl.maths.noise import digest
from jaxrl.parallel import mpi
from jaxrl.types import Pmean, Tree

AXIS = "devices"

Learn = Callable[..., Any]  # (state, batch, pmean=...) -> (state, metrics)


def set_up(count: int) -> None:
    """So many devices, of which a CPU has as many as it is asked for in time."""
    if count > 1:
        with contextlib.suppress(RuntimeError):  # JAX has started already
            jax.config.update("jax_num_cpu_devices", count)


class Devices:
    """`count` of them, or with 0 as many as there are and can share `shares` evenly."""

    def __init__(self, count: int, shares: int, of_what: str) -> None:
        set_up(count)
        there = jax.local_devices()
        if count > len(there):
            raise ValueError(
                f"devices is {count}, but JAX has started with {len(there)}; on a CPU, "
                f"set jax.config.update('jax_num_cpu_devices', {count}) before it does"
            )
        if count and shares % count:
            raise ValueError(
                f"cannot split {of_what} of {shares} over {count} devices; make it a "
                f"multiple of {count}"
            )
        dividing = [n for n in range(1, len(there) + 1) if shares % n == 0]
        self.count = count or dividing[-1]
        self._mesh = Mesh(np.array(there[: self.count]), (AXIS,))

    def compile(self, learn: Learn, state: Any, batch: Any, axis: int) -> Callable:
        """One program `(state, batch) -> (state, metrics, fingerprints)`.

        It takes what `replicate` and `split` make of such a state and batch, and the
        state is donated. Where several learn, each has a part of the batch and a state
        of its own, the same as all others'; `fingerprints` tell whether it is.
        """
        shared = functools.partial(_shared, learn, self.count)
        if self.count == 1:
            return jax.jit(shared, donate_argnums=0).lower(state, batch).compile()
        program = jax.pmap(
            shared,
            AXIS,
            in_axes=(None, 0),
            out_axes=(None, 0, 0),
            devices=self._mesh.devices.tolist(),
            donate_argnums=0,
        )
        empty = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), batch)
        return program.lower(state, self.split(empty, axis)).compile()

    def replicate(self, tree: Tree) -> Tree:
        """The same on each device."""
        if self.count == 1:
            return tree
        return jax.device_put(tree, NamedSharding(self._mesh, PartitionSpec()))

    def split(self, batch: Tree, axis: int) -> Tree:
        """A part of this axis on each device."""
        if self.count == 1:
            return batch
        parts = jax.tree.map(lambda x: self._cut(x, axis), batch)
        return jax.device_put(parts, NamedSharding(self._mesh, PartitionSpec(AXIS)))

    def _cut(self, x: np.ndarray, axis: int) -> np.ndarray:
        """[..., B, ...] as [devices, ..., B / devices, ...]."""
        shape = (*x.shape[:axis], self.count, -1, *x.shape[axis + 1 :])
        return np.moveaxis(x.reshape(shape), axis, 0)

    def single(self, tree: Tree) -> Tree:
        """The first device's, for programs that need no other."""
        if self.count == 1:
            return tree
        return jax.tree.map(lambda x: x.addressable_shards[0].data, tree)


def _shared(learn: Learn, count: int, state: Any, batch: Any) -> tuple[Any, Any, Any]:
    alone = count * mpi.size() == 1
    pmean = mpi.ordered_pmean() if count == 1 else _pmean()
    state, metrics = learn(state, batch, pmean=pmean)
    return state, metrics, None if alone else fingerprint(state)


def _pmean() -> Pmean:
    """Over the devices of all ranks."""
    over_ranks = mpi.ordered_pmean()

    def pmean(tree: Tree) -> Tree:
        tree = jax.lax.pmean(tree, AXIS)
        if mpi.size() == 1:
            return tree
        # One device of a rank speaks; the others receive its answer by their sum.
        speaks = jax.lax.axis_index(AXIS) == 0
        silent = functools.partial(jax.tree.map, jnp.zeros_like)
        return jax.lax.psum(jax.lax.cond(speaks, over_ranks, silent, tree), AXIS)

    return pmean


def fingerprint(tree: Any) -> jax.Array:
    """A number that one changed bit in any leaf changes."""
    return digest(jnp.concatenate([_words(leaf) for leaf in jax.tree.leaves(tree)]))


def _words(leaf: jax.Array) -> jax.Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if leaf.dtype.itemsize < 4:
        return leaf.ravel().astype(jnp.uint32)
    return jax.lax.bitcast_convert_type(leaf, jnp.uint32).ravel()
