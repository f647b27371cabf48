"""The unrolled generator makes the numbers of JAX's default one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.maths import prng

DRAWS = {
    "normal": lambda key: jax.random.normal(key, (5, 3)),
    "one": jax.random.uniform,
    "bytes": lambda key: jax.random.bits(key, (5, 3), jnp.uint8),
    "permutation": lambda key: jax.random.permutation(key, 100),
    "categorical": lambda key: jax.random.categorical(key, jnp.zeros((4, 3))),
    "split": lambda key: jax.vmap(jax.random.normal)(jax.random.split(key, 4)),
    "fold_in": lambda key: jax.random.bits(jax.random.fold_in(key, 7)),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_the_numbers_are_those_of_the_default_generator(draw):
    key = jax.random.key(3)
    np.testing.assert_array_equal(draw(prng.unrolled(key)), draw(key))


def test_a_key_returns_to_its_generator_unchanged():
    key = jax.random.key(3)
    back = prng.like(prng.unrolled(key), key)
    assert back.dtype == key.dtype
    np.testing.assert_array_equal(jax.random.bits(back), jax.random.bits(key))
