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
    """Parameters and the state of their optimiser."""

    params: Params
    opt_state: optax.OptState


def create(params: Params, tx: optax.GradientTransformation) -> Net:
    """Parameters with a new optimiser state."""
    return Net(params, tx.init(params))


def clipped_adam(lr: Real, max_norm: Real) -> optax.GradientTransformation:
    """Adam on gradients clipped to the global norm `max_norm`; inf clips none."""
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
    return _apply(net, tx, pmean(grads)), aux


def _apply(net: Net, tx: optax.GradientTransformation, grads: Params) -> Net:
    updates, opt_state = tx.update(grads, net.opt_state, net.params)
    return Net(optax.apply_updates(net.params, updates), opt_state)


# The two halves of `descend`, so that one `pmean` can average the gradients of two
# networks, and so that a network can pause.


def masked_grad(
    net: Net, loss: Loss, *args: Any, active: jax.Array
) -> tuple[Params, Any]:
    """Gradient and aux of `loss(params, *args)`; zeros if not `active`."""
    grad = functools.partial(jax.grad(loss, has_aux=True), net.params, *args)
    _, aux = jax.eval_shape(lambda: loss(net.params, *args))  # without the gradient
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (net.params, aux))
    return jax.lax.cond(active, grad, lambda: zeros)


def masked_step(
    net: Net, tx: optax.GradientTransformation, grads: Params, active: jax.Array
) -> Net:
    """One step of `tx` by averaged gradients; `net` unchanged if not `active`."""
    return jax.lax.cond(active, lambda: _apply(net, tx, grads), lambda: net)


def polyak(target: Tree, online: Tree, tau: Real) -> Tree:
    """θ̄ ← (1 − τ) θ̄ + τ θ."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), target, online)


def fisher_product(
    policy: Callable[[Vector], Any], theta: Vector
) -> Callable[[Vector], Vector]:
    """The map v ↦ F v, where F is the Hessian at θ of E[KL(π_θ ‖ π)].

    The KL and its gradient are zero at θ, so F = Jᵀ H J, with J the Jacobian of the
    distribution's parameters and H the Hessian of the KL in them. A product costs one
    forward and one backward pass through a network that is linearised once.
    """
    old, forward = jax.linearize(policy, theta)
    _, backward = jax.vjp(policy, theta)

    def kl_grad(dist: Any) -> Any:
        return jax.grad(lambda new: old.kl(new).mean())(dist)

    def product(v: Vector) -> Vector:
        _, curvature = jax.jvp(kl_grad, (old,), (forward(v),))
        return backward(curvature)[0]

    return product


def conjugate_gradients(
    product: Callable[[Vector], Vector], b: Vector, steps: int
) -> Vector:
    """Solves A x = b for a positive definite A, given by `product` (Hestenes, 1952).

    The number of steps is fixed, so that all learners make the same number of `pmean`s.
    """

    def step(_: Any, carry: tuple[Vector, Vector, Vector]) -> tuple[Vector, ...]:
        x, residual, direction = carry
        image = product(direction)
        alpha = _ratio(residual @ residual, direction @ image)
        remaining = residual - alpha * image
        beta = _ratio(remaining @ remaining, residual @ residual)
        return x + alpha * direction, remaining, remaining + beta * direction

    return jax.lax.fori_loop(0, steps, step, (jnp.zeros_like(b), b, b))[0]


def _ratio(numerator: jax.Array, denominator: jax.Array) -> jax.Array:
    """The quotient; 0 where the denominator is, because then x solves the system."""
    positive = denominator > 0
    return jnp.where(positive, numerator / jnp.where(positive, denominator, 1), 0)
