"""Noise that belongs to a sample, wherever the sample is.

Cut one batch over devices or hosts and every transition keeps its own draw, because the
draw is made from the transition's bits and the key. Only equal transitions share one.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, UInt32

from jaxrl.types import Transition


def normal(
    key: Key[Array, ""], batch: Transition, size: int
) -> Float[Array, "batch size"]:
    """`size` standard normal draws for each transition of `batch` [B]."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, fingerprint(batch))
    return jax.vmap(lambda each: jax.random.normal(each, (size,)))(keys)


def fingerprint(batch: Transition) -> UInt32[Array, " batch"]:
    """A number for each transition: Σ wᵢ·(its i-th word), with odd wᵢ, modulo 2³²."""
    rows = [batch.obs, batch.action, batch.reward, batch.next_obs]
    words = jnp.concatenate([_words(row) for row in rows], axis=1)  # [B, words]
    weights = np.arange(1, 2 * words.shape[1], 2, dtype=np.uint32) * np.uint32(
        2654435761  # Knuth's multiplicative hash
    )
    return jnp.sum(words * weights[None], axis=1, dtype=jnp.uint32)


def _words(x: jax.Array) -> UInt32[Array, "batch words"]:
    real = x.reshape(len(x), -1).astype(float)
    return jax.lax.bitcast_convert_type(real, jnp.uint32).reshape(len(x), -1)
