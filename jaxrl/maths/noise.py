"""Noise that depends on the key and the transition, not on its place in the batch.

When a batch is split over devices or hosts, every transition keeps its draw, because
the draw is seeded by a hash of the transition. Transitions with equal observations,
action and reward get equal draws.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, UInt32

from jaxrl.maths import fusion, prng
from jaxrl.types import Transition

GOLDEN = np.uint32(0x9E3779B9)  # 2³² over the golden ratio


def normal(
    key: Key[Array, ""], batch: Transition, size: int
) -> Float[Array, "batch size"]:
    """`size` standard normal draws for each transition of `batch` [B]."""

    def draw(hashes: jax.Array) -> jax.Array:
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, hashes)
        return jax.vmap(lambda each: jax.random.normal(each, (size,)))(keys)

    hashes = fingerprint(batch)
    if prng.is_unrolled(key):  # many expressions use the draws
        return fusion.unfused(draw, hashes)
    return draw(hashes)


def fingerprint(batch: Transition) -> UInt32[Array, " batch"]:
    """A hash of each transition."""
    rows = [batch.obs, batch.action, batch.reward, batch.next_obs]
    words = jnp.concatenate([_row_words(row) for row in rows], axis=1)  # [B, words]
    return jax.vmap(digest)(words)


def digest(words: UInt32[Array, " words"]) -> UInt32[Array, ""]:
    """A hash of the words' bits and their order."""
    positions = jnp.arange(1, 1 + words.size, dtype=jnp.uint32) * GOLDEN
    return jnp.sum(_mix(words ^ positions), dtype=jnp.uint32)


def _mix(words: UInt32[Array, " words"]) -> UInt32[Array, " words"]:
    """The finaliser of MurmurHash3 (Appleby, 2011): all bits affect all bits."""
    words = (words ^ (words >> 16)) * np.uint32(0x85EBCA6B)
    words = (words ^ (words >> 13)) * np.uint32(0xC2B2AE35)
    return words ^ (words >> 16)


def _row_words(x: jax.Array) -> UInt32[Array, "batch words"]:
    return as_words(x.astype(float)).reshape(len(x), -1)


def as_words(x: jax.Array) -> UInt32[Array, " words"]:
    """The bits of all values, in their order."""
    if x.dtype.itemsize < 4:
        return x.ravel().astype(jnp.uint32)
    return jax.lax.bitcast_convert_type(x, jnp.uint32).ravel()
