"""Steps in parameter space: gradient descent, polyak averaging, natural gradients."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jaxrl.types import Params, Pmean, Real, Tree

Vector = Float[Array, " params"]
Loss = Callable[..., tuple[jax.Array, Any]]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Net:
    """Parameters and the state of what optimises them."""

    params: Params
    opt_state: optax.OptState


def create(params: Params, tx: optax.GradientTransformation) -> Net:
    return Net(params, tx.init(params))


def clipped_adam(lr: Real, max_norm: Real) -> optax.GradientTransformation:
    """Adam on gradients cut to `max_norm`; an infinite one cuts none."""
    return optax.chain(optax.clip_by_global_norm(max_norm), optax.adam(lr))


def descend(
    net: Net,
    tx: optax.GradientTransformation,
    loss: Loss,
    *args: Any,
    pmean: Pmean,
) -> tuple[Net, Any]:
    """One step of `tx` down `loss(params, *args) -> (loss, aux)`; returns the aux."""
    grads, aux = jax.grad(loss, has_aux=True)(net.params, *args)
    return _stepped(net, tx, pmean(grads)), aux


def _stepped(net: Net, tx: optax.GradientTransformation, grads: Params) -> Net:
    updates, opt_state = tx.update(grads, net.opt_state, net.params)
    return Net(optax.apply_updates(net.params, updates), opt_state)


# The halves of a descent, for nets that descend side by side by one mean of all


def slope(net: Net, loss: Loss, *args: Any, when: jax.Array) -> tuple[Params, Any]:
    """The gradient and the aux of `loss(params, *args)`; unless `when`, zeros."""
    seek = functools.partial(jax.grad(loss, has_aux=True), net.params, *args)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(seek))
    return jax.lax.cond(when, seek, lambda: zeros)


def step(
    net: Net, tx: optax.GradientTransformation, grads: Params, when: jax.Array
) -> Net:
    """One step of `tx` by gradients that all learners agree on; unless `when`, none."""
    return jax.lax.cond(when, lambda: _stepped(net, tx, grads), lambda: net)


def polyak(target: Tree, online: Tree, tau: Real) -> Tree:
    """θ̄ ← (1 − τ) θ̄ + τ θ."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), target, online)


def fisher_product(
    policy: Callable[[Vector], Any], theta: Vector
) -> Callable[[Vector], Vector]:
    """The map v ↦ F v, where F is the Hessian at θ of E[KL(π_θ ‖ π)].

    The KL has neither value nor slope at θ, so F = Jᵀ H J, with J the Jacobian of the
    distribution's parameters and H the Hessian of the KL in them: one pass forward and
    one backward through a network that is linearised once.
    """
    old, forward = jax.linearize(policy, theta)
    _, backward = jax.vjp(policy, theta)

    def slope(dist: Any) -> Any:
        return jax.grad(lambda new: old.kl(new).mean())(dist)

    def product(v: Vector) -> Vector:
        _, curvature = jax.jvp(slope, (old,), (forward(v),))
        return backward(curvature)[0]

    return product


def conjugate_gradients(
    product: Callable[[Vector], Vector], b: Vector, steps: int
) -> Vector:
    """Solves A x = b for a positive definite A, given by `product` (Hestenes, 1952).

    The number of steps is fixed, so that no learner leaves before another.
    """

    def step(_: Any, carry: tuple[Vector, Vector, Vector]) -> tuple[Vector, ...]:
        x, residual, direction = carry
        image = product(direction)
        length = _ratio(residual @ residual, direction @ image)
        smaller = residual - length * image
        turn = _ratio(smaller @ smaller, residual @ residual)
        return x + length * direction, smaller, smaller + turn * direction

    return jax.lax.fori_loop(0, steps, step, (jnp.zeros_like(b), b, b))[0]


def _ratio(numerator: jax.Array, denominator: jax.Array) -> jax.Array:
    """The quotient, and 0 where nothing is left to divide: the search has ended."""
    positive = denominator > 0
    return jnp.where(positive, numerator / jnp.where(positive, denominator, 1), 0)
