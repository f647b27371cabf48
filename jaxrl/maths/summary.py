"""Statistics of samples inside a compiled program."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Summary(NamedTuple):
    """A sample by its size, mean, sum of squares about the mean, least and greatest.

    Several samples have arrays of one axis.
    """

    n: jax.Array
    mean: jax.Array
    m2: jax.Array
    min: jax.Array
    max: jax.Array

    @classmethod
    def empty(cls, samples: int) -> "Summary":
        """Of samples without a number."""
        zero = jnp.zeros(samples)
        return cls(zero.astype(int), zero, zero, zero + jnp.inf, zero - jnp.inf)


def summarize(values: Any, mask: jax.Array | None = None) -> Summary:
    """Of all `values`, or of those where the `mask` of the same shape is true."""
    x = jnp.asarray(values, float)
    if mask is None:
        mask = jnp.ones(x.shape, bool)
    n = mask.sum()
    mean = jnp.where(mask, x, 0).sum() / jnp.maximum(n, 1)
    m2 = jnp.where(mask, (x - mean) ** 2, 0).sum()
    least, greatest = jnp.where(mask, x, jnp.inf), jnp.where(mask, x, -jnp.inf)
    return Summary(n, mean, m2, least.min(), greatest.max())


def merge(a: Summary, b: Summary) -> Summary:
    """The summary of both samples together."""
    n = a.n + b.n
    share = b.n / jnp.maximum(n, 1)
    shift = b.mean - a.mean
    m2 = a.m2 + b.m2 + shift**2 * a.n * share
    mean = a.mean + shift * share
    return Summary(n, mean, m2, jnp.minimum(a.min, b.min), jnp.maximum(a.max, b.max))


def stack(samples: Iterable[Summary]) -> Summary:
    """One for all samples."""
    return jax.tree.map(lambda *parts: jnp.stack(parts), *samples)


def pack(parts: Iterable[Summary]) -> jax.Array:
    """The samples of all parts as one array, which is fetched faster than many."""
    n, *others = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
    return jnp.stack([n, *(x.view(n.dtype) for x in others)])  # the bits of the floats


def unpack(names: Iterable[str], packed: Any) -> dict[str, Summary]:
    """What `pack` was given, by the names of the samples."""
    n, others = packed[0], packed[1:].view(f"f{packed.dtype.itemsize}")
    return {name: Summary(n[i], *others[:, i]) for i, name in enumerate(names)}
