"""Ends of networks: policies that return a distribution or an action, and values."""

import itertools

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.maths.distributions import (
    Bernoulli,
    Categorical,
    Gaussian,
    MultiCategorical,
    TanhGaussian,
)
from jaxrl.policy import LOG_STD_RANGE


class GaussianPolicy(nn.Module):
    """A mean that depends on the observation, and a log σ that does not."""

    mean: nn.Module
    size: int
    log_std: float = -0.5

    @nn.compact
    def __call__(self, obs: jax.Array) -> Gaussian:
        """The policy for observations."""
        initial = nn.initializers.constant(self.log_std)
        log_std = self.param("log_std", initial, (self.size,), float)
        mean = self.mean(obs)
        return Gaussian(mean, jnp.broadcast_to(log_std, mean.shape))


class CategoricalPolicy(nn.Module):
    """Logits of the discrete actions."""

    logits: nn.Module

    def __call__(self, obs: jax.Array) -> Categorical:
        """The policy for observations."""
        return Categorical(self.logits(obs))


class MultiCategoricalPolicy(nn.Module):
    """Logits of several discrete actions, the i-th one of `nvec[i]`."""

    logits: nn.Module
    nvec: tuple[int, ...]

    def __call__(self, obs: jax.Array) -> MultiCategorical:
        """The policy for observations."""
        ends = list(itertools.accumulate(self.nvec))[:-1]
        parts = jnp.split(self.logits(obs), ends, axis=-1)
        return MultiCategorical(tuple(map(Categorical, parts)))


class BernoulliPolicy(nn.Module):
    """The log-odds of switches."""

    logits: nn.Module

    def __call__(self, obs: jax.Array) -> Bernoulli:
        """The policy for observations."""
        return Bernoulli(self.logits(obs))


class TanhGaussianPolicy(nn.Module):
    """Mean and log σ from one trunk; log σ is clipped to `LOG_STD_RANGE`."""

    trunk: nn.Module

    def __call__(self, obs: jax.Array) -> TanhGaussian:
        """The policy for observations."""
        mean, log_std = jnp.split(self.trunk(obs), 2, axis=-1)
        return TanhGaussian(mean, log_std.clip(*LOG_STD_RANGE))


class DeterministicPolicy(nn.Module):
    """One action per observation, the tanh of the trunk's output."""

    trunk: nn.Module

    def __call__(self, obs: jax.Array) -> jax.Array:
        """The action for observations."""
        return jnp.tanh(self.trunk(obs))


class Value(nn.Module):
    """V(s), or Q(s, a) if an action is given."""

    trunk: nn.Module

    def __call__(self, *inputs: jax.Array) -> jax.Array:
        """The value of observations, or of observations and actions."""
        return self.trunk(jnp.concatenate(inputs, axis=-1))[..., 0]
