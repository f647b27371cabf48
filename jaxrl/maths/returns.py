"""Advantages from rewards and values."""

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxrl.types import Pmean, Real, Transition


def gae(
    batch: Transition,
    value: Float[Array, "time env"],
    next_value: Float[Array, "time env"],
    gamma: Real,
    lam: Real,
) -> Float[Array, "time env"]:
    """Generalized advantage estimates (Schulman et al., 2016, arXiv:1506.02438).

        δₜ = rₜ + γ (1 − terminatedₜ) V(s′ₜ) − V(sₜ)
        Aₜ = δₜ + γ λ (1 − doneₜ) Aₜ₊₁,     done = terminated or truncated

    A truncated step bootstraps from its own `next_obs` and then cuts the trace, so
    time limits add no bias. `A + V(s)` is the λ-return, the target for V.
    """
    chex.assert_rank(value, 2)
    chex.assert_equal_shape([value, next_value, batch.reward, batch.terminated])
    terminated = batch.terminated.astype(bool)
    done = terminated | batch.truncated.astype(bool)
    delta = batch.reward + gamma * jnp.where(terminated, 0, next_value) - value
    decay = gamma * lam * jnp.where(done, jnp.zeros_like(value), 1)

    def step(after: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple:
        advantage = now[0] + now[1] * after
        return advantage, advantage

    start = jnp.zeros_like(value[0])
    return jax.lax.scan(step, start, (delta, decay), reverse=True, unroll=16)[1]


def standardize(advantage: jax.Array, pmean: Pmean) -> jax.Array:
    """Mean 0 and standard deviation 1 over all learners; equal advantages become 0."""
    # The mean is rounded, so that equal advantages minus their mean are not exactly 0;
    # the mean of what is left is subtracted too.
    centred = advantage - pmean(advantage.mean())
    rest, square = pmean((centred.mean(), jnp.mean(centred**2)))
    std = jnp.sqrt(jnp.maximum(square - rest**2, 0))
    return (centred - rest) / (std + 1e-8)


def explained_variance(prediction: jax.Array, target: jax.Array) -> jax.Array:
    """1 − Var[y − ŷ] / Var[y]: 1 is perfect, 0 no better than a constant."""
    return 1 - jnp.var(target - prediction) / (jnp.var(target) + 1e-8)
