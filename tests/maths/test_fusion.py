"""What is not fused is computed in a branch, with the same result."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.maths import fusion


def expression(x, y):
    return fusion.unfused(lambda x, y: jnp.tanh(x) @ y.T, x, y)


def test_the_result_and_its_gradient_are_those_of_the_function():
    x, y = jax.random.normal(jax.random.key(0), (2, 5, 3))
    expected = jnp.tanh(x) @ y.T
    np.testing.assert_allclose(jax.jit(expression)(x, y), expected, rtol=1e-6)
    np.testing.assert_allclose(
        jax.grad(lambda x: expression(x, y).sum())(x),
        jax.grad(lambda x: (jnp.tanh(x) @ y.T).sum())(x),
        rtol=1e-5,
    )


def test_it_is_mapped_over_seeds():
    x, y = jax.random.normal(jax.random.key(0), (2, 4, 5, 3))
    got = jax.vmap(expression)(x, y)
    expected = [jnp.tanh(a) @ b.T for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(got, jnp.stack(expected), rtol=1e-6)


def test_the_compiled_program_keeps_the_branch():
    x = jnp.ones((5, 3))
    assert "conditional(" in jax.jit(expression).lower(x, x).compile().as_text()
