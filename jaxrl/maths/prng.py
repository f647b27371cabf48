"""The bits of JAX's default generator, computed faster on a CPU.

JAX's own threefry is a loop there, whose rounds cost more than their arithmetic when
few numbers are drawn. This one is a single expression, which XLA fuses. Only programs
that ask for it have it: what is fused with the numbers may round otherwise.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl

from jaxrl.types import Tree

Words = tuple[jax.Array, jax.Array]

TAG = "fry_unrolled"
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)


def threefry(key: jax.Array, words: Words) -> Words:
    """The hash of pairs of words (Salmon et al., 2011), with a key [2]."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    x, y = words[0] + _like(keys[0], words[0]), words[1] + _like(keys[1], words[1])
    for i in range(5):
        for rotation in ROTATIONS[i % 2]:
            x = x + y
            y = x ^ ((y << rotation) | (y >> (32 - rotation)))
        x = x + _like(keys[(i + 1) % 3], x)
        y = y + _like(keys[(i + 2) % 3] + np.uint32(i + 1), y)
    return x, y


def _like(word: jax.Array, words: jax.Array) -> jax.Array:
    return jnp.broadcast_to(word, words.shape)


def _count(shape: tuple[int, ...]) -> Words:
    """The numbers of the elements; there are less than 2³² of them."""
    low = jnp.arange(np.prod(shape, dtype=np.int64), dtype=np.uint32).reshape(shape)
    return jnp.zeros_like(low), low


def _seed(seed: jax.Array | int) -> jax.Array:
    word = jnp.asarray(seed).astype(np.uint32)
    return jnp.stack([jnp.zeros_like(word), word])


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jnp.stack(threefry(key, _count(shape)), axis=-1)


def _random_bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    high, low = threefry(key, _count(shape))
    if width == 64:
        return high.astype(np.uint64) << 32 | low.astype(np.uint64)
    return (high ^ low).astype(f"uint{width}")


def _fold_in(key: jax.Array, data: jax.Array | int) -> jax.Array:
    seed = _seed(data)
    return jnp.stack(threefry(key, (seed[0], seed[1])))


UNROLLED = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="threefry2x32_unrolled",
    tag=TAG,
)


def unrolled(tree: Tree) -> Tree:
    """Its keys of the default generator, as ones from which the same numbers follow."""
    if jax.default_backend() != "cpu":
        return tree
    return jax.tree.map(lambda x: _with(x, UNROLLED) if _is_default(x) else x, tree)


def like(tree: Tree, other: Tree) -> Tree:
    """Its keys as ones of the other's generators, which make the same numbers."""

    def convert(x: Any, old: Any) -> Any:
        return _with(x, jax.random.key_impl(old)) if _is_default(old) else x

    return jax.tree.map(convert, tree, other)


def is_unrolled(key: jax.Array) -> bool:
    """Whether it is a key of a program that asked for it."""
    return key.dtype.name == f"key<{TAG}>"


def _is_default(x: Any) -> bool:
    is_key = jax.dtypes.issubdtype(getattr(x, "dtype", None), jax.dtypes.prng_key)
    return bool(is_key) and jax.random.key_impl(x) == "threefry2x32"


def _with(key: jax.Array, generator: Any) -> jax.Array:
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=generator)
