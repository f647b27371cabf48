"""The faster gradient of dense layers is the gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.maths import dense
from jaxrl.maths.trunks import MLP

MODULE = MLP((5, 2), "tanh")


def loss(params, x):
    return jnp.sum(MODULE.apply(params, x) ** 2)


def assert_close(got, expected):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
        got,
        expected,
    )


@pytest.mark.parametrize("shape", [(7, 3), (4, 7, 3), (3,), (5001, 3)], ids=str)
def test_both_gradients_and_both_modes_agree(shape):
    x = jax.random.normal(jax.random.key(0), shape)
    params = MODULE.init(jax.random.key(1), x)
    grad = jax.grad(loss, (0, 1))
    expected = grad(params, x)
    tangent = jax.jvp(loss, (params, x), (params, x))
    with dense.fast_gradients():
        assert_close(grad(params, x), expected)
        assert_close(jax.jvp(loss, (params, x), (params, x)), tangent)


def test_seeds_are_mapped_and_curvature_is_found():
    x = jax.random.normal(jax.random.key(0), (2, 7, 3))
    keys = jax.random.split(jax.random.key(1), 2)
    params = jax.vmap(MODULE.init, (0, None))(keys, x[0])

    def curvature(params, x):
        return jax.jvp(lambda p: jax.grad(loss)(p, x), (params,), (params,))[1]

    expected = jax.vmap(curvature)(params, x)
    with dense.fast_gradients():
        assert_close(jax.vmap(curvature)(params, x), expected)


def test_only_what_asks_for_it_has_it():
    x = jnp.ones((7, 3))
    params = MODULE.init(jax.random.key(1), x)
    plain = str(jax.make_jaxpr(lambda p: jax.grad(loss)(p, x))(params))
    with dense.fast_gradients():
        fast = str(jax.make_jaxpr(lambda p: jax.grad(loss)(p, x))(params))
    assert "optimization_barrier" in fast
    assert "optimization_barrier" not in plain
