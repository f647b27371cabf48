"""Running mean and variance, which standardise observations and returns.

The moments are part of an algorithm's state, so they are saved, averaged over learners
and exported with it. With `None` in their place nothing is normalised.
"""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxrl.settings import Encoder
from jaxrl.types import EnvSpec, Pmean, Transition

CLIP = 10.0  # normalised observations are clipped to ± this
EPSILON = 1e-8  # added to variances


class Moments(NamedTuple):
    """Mean and variance over `batches` batches, each of equal weight.

    Batches are counted and not samples, so that the count does not depend on the number
    of learners that share a batch.
    """

    batches: jax.Array
    mean: jax.Array
    var: jax.Array

    @classmethod
    def zero(cls, *shape: int) -> "Moments":
        """The moments before the first batch: mean 0 and variance 1."""
        return cls(jnp.zeros((), int), jnp.zeros(shape), jnp.ones(shape))

    @property
    def std(self) -> jax.Array:
        """Standard deviation, never 0."""
        return jnp.sqrt(self.var + EPSILON)


class NormalizeSettings(Protocol):
    """The settings that say whether observations are normalised."""

    @property
    def normalize_obs(self) -> bool:
        """Whether observations are standardized."""

    @property
    def encoder(self) -> Encoder:
        """Network body."""


def initial(spec: EnvSpec, cfg: NormalizeSettings) -> Moments | None:
    """Of observations; none for images, which their encoder scales."""
    is_scaled = spec.image is not None and cfg.encoder != "mlp"
    skipped = is_scaled or not cfg.normalize_obs
    return None if skipped else Moments.zero(spec.obs_size)


def merge(moments: Moments | None, x: jax.Array, pmean: Pmean) -> Moments | None:
    """The moments after one more batch `x` [..., *shape], shared by all learners.

    w = 1/(k + 1),  δ = mean(x) − μ
    μ ← μ + w δ
    σ² ← (1 − w) σ² + w var(x) + w (1 − w) δ²
    """
    if moments is None:
        return None
    axes = tuple(range(x.ndim - moments.mean.ndim))
    batch_mean = pmean(x.mean(axes))
    batch_var = pmean(jnp.mean((x - _like(batch_mean, x)) ** 2, axes))
    weight = 1 / (moments.batches + 1)
    shift = batch_mean - moments.mean
    var = (1 - weight) * (moments.var + weight * shift**2) + weight * batch_var
    return Moments(moments.batches + 1, moments.mean + weight * shift, var)


def standardize(moments: Moments | None, x: jax.Array) -> jax.Array:
    """(x − mean) / std; `x` itself if there are no moments."""
    if moments is None:
        return x
    return (x - _like(moments.mean, x)) / _like(moments.std, x)


def restore(moments: Moments | None, x: jax.Array) -> jax.Array:
    """The inverse of `standardize`."""
    if moments is None:
        return x
    return x * _like(moments.std, x) + _like(moments.mean, x)


def normalize_obs(moments: Moments | None, obs: jax.Array) -> jax.Array:
    """Standardised and clipped observations, the input of the networks."""
    if moments is None:
        return obs
    return standardize(moments, obs).clip(-CLIP, CLIP)


def normalize_batch(moments: Moments | None, batch: Transition) -> Transition:
    """The batch with `obs` and `next_obs` normalised."""
    return batch._replace(
        obs=normalize_obs(moments, batch.obs),
        next_obs=normalize_obs(moments, batch.next_obs),
    )


def _like(moment: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.broadcast_to(moment, x.shape)
