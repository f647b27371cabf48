"""Splitting each update over the devices of this process, by pmap."""

import contextlib
import functools
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxrl.maths.noise import as_words, digest
from jaxrl.parallel import mpi
from jaxrl.types import Pmean, Tree

AXIS = "devices"

Learn = Callable[..., Any]  # (state, batch, pmean=...) -> (state, metrics)


def set_up(count: int) -> None:
    """Asks JAX for `count` CPU devices, if it has not started yet."""
    if count > 1:
        with contextlib.suppress(RuntimeError):  # JAX has started already
            jax.config.update("jax_num_cpu_devices", count)


def _existing() -> list[jax.Device]:
    """Refuses a platform that this machine does not have."""
    try:
        return jax.local_devices()
    except (RuntimeError, AssertionError) as error:  # by what is installed
        asked = os.environ.get("JAX_PLATFORMS")
        reason = " ".join(str(error).split()) or "it is not installed"
        raise ValueError(
            f"JAX cannot use {asked or 'any device'} here: {reason}; set or unset "
            "the environment variable JAX_PLATFORMS"
        ) from None


class Devices:
    """`count` devices, or with 0 as many as exist and divide `work` evenly."""

    def __init__(self, count: int, work: int, name: str) -> None:
        set_up(count)
        existing = _existing()
        if count > len(existing):
            raise ValueError(
                f"devices is {count}, but JAX has started with {len(existing)}; on a "
                f"CPU, set jax.config.update('jax_num_cpu_devices', {count}) before "
                "JAX starts"
            )
        if count and work % count:
            raise ValueError(
                f"cannot split {name} of {work} over {count} devices; make it a "
                f"multiple of {count}"
            )
        dividing = [n for n in range(1, len(existing) + 1) if work % n == 0]
        self.count = count or dividing[-1]
        self._mesh = Mesh(np.array(existing[: self.count]), (AXIS,))

    @property
    def on_host(self) -> bool:
        """Whether they use the memory of the host."""
        return self._mesh.devices.flat[0].platform == "cpu"

    @property
    def compiler_options(self) -> dict[str, Any] | None:
        """XLA uses half of a CPU's 512-bit vectors by itself: old ones slow down."""
        return {"xla_cpu_prefer_vector_width": 512} if self.on_host else None

    def compile(self, learn: Learn, state: Any, batch: Any, axis: int) -> Callable:
        """One program `(state, batch) -> (state, metrics, fingerprints)`.

        Its arguments are what `replicate` and `split` return; the state is donated.
        Each of several learners has a part of the batch and a copy of the state. The
        `fingerprints` of the copies are equal as long as the copies are.
        """
        update = functools.partial(_update, learn, self.count)
        if self.count == 1:
            program = jax.jit(update, donate_argnums=0)
            shapes = batch
        else:
            program = self.pmap(update, (None, 0), (None, 0, 0))
            empty = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), batch)
            shapes = self.split(empty, axis)
        lowered = program.lower(state, shapes)
        return lowered.compile(compiler_options=self.compiler_options)

    def pmap(self, function: Callable, in_axes: Any, out_axes: Any = 0) -> Any:
        """On each device; the first argument is donated."""
        devices = self._mesh.devices.tolist()
        return jax.pmap(
            function,
            AXIS,
            in_axes=in_axes,
            out_axes=out_axes,
            devices=devices,
            donate_argnums=0,
        )

    def scatter(self, tree: Tree) -> Tree:
        """Part d of arrays [devices, ...] on device d."""
        if self.count == 1:
            return tree
        return jax.device_put(tree, NamedSharding(self._mesh, PartitionSpec(AXIS)))

    def part(self, tree: Tree, device: int) -> Tree:
        """What one device has of arrays [devices, ...], as arrays [1, ...]."""
        if self.count == 1:
            return tree
        return jax.tree.map(lambda x: x.addressable_shards[device].data, tree)

    def replicate(self, tree: Tree) -> Tree:
        """A copy on each device."""
        if self.count == 1:
            return tree
        return jax.device_put(tree, NamedSharding(self._mesh, PartitionSpec()))

    def split(self, batch: Tree, axis: int) -> Tree:
        """A part of this axis on each device."""
        if self.count == 1:
            return batch
        return jax.tree.map(lambda x: self.scatter(self._cut(x, axis)), batch)

    def _cut(self, x: np.ndarray, axis: int) -> np.ndarray:
        """[..., B, ...] as [devices, ..., B / devices, ...]."""
        shape = (*x.shape[:axis], self.count, -1, *x.shape[axis + 1 :])
        return np.moveaxis(x.reshape(shape), axis, 0)

    def single(self, tree: Tree) -> Tree:
        """The first device's copy, for programs that use one device."""
        return self.part(tree, 0)


def _update(learn: Learn, count: int, state: Any, batch: Any) -> tuple[Any, Any, Any]:
    single = count * mpi.size() == 1
    pmean = mpi.ordered_pmean() if count == 1 else mean_over_devices()
    state, metrics = learn(state, batch, pmean=pmean)
    return state, metrics, None if single else fingerprint(state)


def mean_over_devices() -> Pmean:
    """The mean over the devices of all ranks, inside the program of a pmap."""
    over_ranks = mpi.ordered_pmean()

    def pmean(tree: Tree) -> Tree:
        tree = jax.lax.pmean(tree, AXIS)
        if mpi.size() == 1:
            return tree
        # One device of a rank calls MPI; the others get its result by a sum with zeros.
        calls = jax.lax.axis_index(AXIS) == 0
        zeros = functools.partial(jax.tree.map, jnp.zeros_like)
        return jax.lax.psum(jax.lax.cond(calls, over_ranks, zeros, tree), AXIS)

    return pmean


def fingerprint(tree: Any) -> jax.Array:
    """A number that one changed bit in any leaf changes."""
    leaves = jax.tree.leaves(tree)
    return digest(jnp.concatenate([as_words(_plain(leaf)) for leaf in leaves]))


def _plain(leaf: jax.Array) -> jax.Array:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if is_key else leaf
