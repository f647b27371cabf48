"""Write the logarithm of the density of a diagonal Gaussian.

A policy for real-valued actions has a mean μ and a standard deviation σ for every
action dimension. The dimensions are independent, so the log-likelihood of an action
is the sum over dimensions of the logarithm of

    N(x; μ, σ) = exp(−½ ((x − μ) / σ)²) / (σ √(2π)).

`log_std` is log σ. All three arrays have shape [..., n]; the result has shape [...].
Do not compute the density itself first: it is 0 in float32 far from the mean.
"""

import jax


def log_likelihood(x: jax.Array, mean: jax.Array, log_std: jax.Array) -> jax.Array:
    """Σ log N(x; μ, σ), over the last axis."""
    raise NotImplementedError
