"""Exercise: the log-likelihood of a diagonal Gaussian."""

import math

import jax
import jax.numpy as jnp

from jaxrl.exercises import functions
from jaxrl.maths.distributions import HALF_LOG_2PI, Gaussian


def _reference(x: jax.Array, mean: jax.Array, log_std: jax.Array) -> jax.Array:
    return Gaussian(mean, log_std).log_prob(x)


def _case(x: list, mean: list, std: list) -> tuple[jax.Array, jax.Array, jax.Array]:
    return jnp.array(x, float), jnp.array(mean, float), jnp.log(jnp.array(std, float))


def _batch() -> tuple[jax.Array, jax.Array, jax.Array]:
    keys = jax.random.split(jax.random.key(0), 3)
    x, mean, log_std = (jax.random.normal(key, (4, 3)) for key in keys)
    return x, mean, log_std


CASES = {
    "x = μ = 0, σ = 1": _case([0], [0], [1]),
    "x = 1, μ = 0, σ = 1": _case([1], [0], [1]),
    "x = 0, μ = 3, σ = 1": _case([0], [3], [1]),
    "x = 1, μ = 0, σ = 2": _case([1], [0], [2]),
    "two dimensions": _case([1, 2], [0, 0], [1, 3]),
    "x = 40, μ = 0, σ = 1": _case([40], [0], [1]),
    "a batch [4, 3]": _batch(),
}


def _z(x: jax.Array, mean: jax.Array, log_std: jax.Array) -> jax.Array:
    return (x - mean) / jnp.exp(log_std)


MISTAKES = {
    "the constant −½ log 2π is missing": lambda x, mean, log_std: jnp.sum(
        -0.5 * _z(x, mean, log_std) ** 2 - log_std, axis=-1
    ),
    "the constant is −½ log 2π for every dimension, not once": lambda x, m, s: (
        jnp.sum(-0.5 * _z(x, m, s) ** 2 - s, axis=-1) - HALF_LOG_2PI
    ),
    "the constant is −½ log 2π, not −log 2π": lambda x, mean, log_std: jnp.sum(
        -0.5 * _z(x, mean, log_std) ** 2 - log_std - math.log(2 * math.pi), axis=-1
    ),
    "−log σ is missing: a wider Gaussian is lower": lambda x, mean, log_std: jnp.sum(
        -0.5 * _z(x, mean, log_std) ** 2 - HALF_LOG_2PI, axis=-1
    ),
    "log σ must be subtracted, not added": lambda x, mean, log_std: jnp.sum(
        -0.5 * _z(x, mean, log_std) ** 2 + log_std - HALF_LOG_2PI, axis=-1
    ),
    "the factor ½ of the square is missing": lambda x, mean, log_std: jnp.sum(
        -(_z(x, mean, log_std) ** 2) - log_std - HALF_LOG_2PI, axis=-1
    ),
    "(x − μ)² is not divided by σ²": lambda x, mean, log_std: jnp.sum(
        -0.5 * (x - mean) ** 2 - log_std - HALF_LOG_2PI, axis=-1
    ),
    "(x − μ)² is divided by σ instead of σ²": lambda x, mean, log_std: jnp.sum(
        -0.5 * (x - mean) ** 2 / jnp.exp(log_std) - log_std - HALF_LOG_2PI, axis=-1
    ),
    "log_std is log σ; take jnp.exp of it before dividing": lambda x, m, s: jnp.sum(
        -0.5 * ((x - m) / s) ** 2 - s - HALF_LOG_2PI, axis=-1
    ),
    "this is the density; its logarithm is asked for": lambda *args: jnp.exp(
        _reference(*args)
    ),
    "the logarithm of the density is −inf where the density rounds to 0; take the "
    "logarithm of each factor by hand": lambda *args: jnp.log(
        jnp.exp(_reference(*args))
    ),
    "sum over the dimensions instead of averaging": lambda x, mean, log_std: (
        _reference(x, mean, log_std) / x.shape[-1]
    ),
    "the sign is reversed: this is the negative log-likelihood": lambda *args: (
        -_reference(*args)
    ),
}
TASK = functions.Task(
    name="log_likelihood",
    reference=_reference,
    cases=CASES,
    mistakes=MISTAKES,
    shape="sum over the last axis only",
    differentiated=1,
)


def fault(path: str) -> str:
    """What is wrong with the file; empty if it is right."""
    return functions.fault(TASK, path)
