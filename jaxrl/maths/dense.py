"""The matrix product of dense layers, with a gradient that is faster on a CPU.

XLA's fast products on a CPU sum over the last axis of their left operand. The gradient
of the weights, xᵀ g, sums over the first one of both, unless one of them is transposed
in memory before: the narrower one. Results differ by rounding, so that only programs
that ask for it have it.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.lax import optimization_barrier  # keeps a transpose out of the product

from jaxrl.maths import fusion

LARGE = 8192  # numbers: 32 kB
_fast = contextvars.ContextVar("fast", default=False)


@contextlib.contextmanager
def fast_gradients() -> Iterator[None]:
    """What is traced inside computes the gradients of weights so, on a CPU."""
    token = _fast.set(jax.default_backend() == "cpu")
    try:
        yield
    finally:
        _fast.reset(token)


def dot_general(
    x: jax.Array, weights: jax.Array, dimensions: Any, **options: Any
) -> jax.Array:
    """For `nn.Dense`: x [..., inputs] times weights [inputs, outputs]."""
    if not _fast.get():
        return jax.lax.dot_general(x, weights, dimensions, **options)
    rows = x.reshape(-1, x.shape[-1])
    return _product(rows, weights).reshape(*x.shape[:-1], -1)


@jax.custom_jvp
def _product(x: jax.Array, weights: jax.Array) -> jax.Array:
    return x @ weights


@_product.defjvp
def _product_jvp(primals: tuple, tangents: tuple) -> tuple[jax.Array, jax.Array]:
    (x, weights), (dx, dweights) = primals, tangents
    x = optimization_barrier(x)  # a transpose alone is faster than one of an expression
    return x @ weights, dx @ weights + _transposed_product(x, dweights)


def _transposed_product(x: jax.Array, weights: jax.Array) -> jax.Array:
    """x times weights, by transposes that its own transpose, xᵀ g, has to make too."""
    inputs, outputs = weights.shape
    if outputs < inputs:
        product = _contract(_transposed(weights), x, 1)
        return optimization_barrier(product).T
    return _contract(_transposed(x), weights, 0)


def _transposed(x: jax.Array) -> jax.Array:
    """In memory. A large one is slower if it is fused with what computes x."""
    if x.size > LARGE:
        return fusion.unfused(jnp.transpose, x)
    return optimization_barrier(x.T)


def _contract(a: jax.Array, b: jax.Array, axis: int) -> jax.Array:
    return jax.lax.dot_general(a, b, (((axis,), (axis,)), ((), ())))
