"""Distributions over actions: pytrees of their parameters, [..., action_size].

Gaussian, Categorical, MultiCategorical and Bernoulli have `mode`, `sample`, `log_prob`,
`entropy` and `kl`, which reduce over the last axis; TanhGaussian has `mode`, `sample`
and `reparameterize`. A policy network is any module that returns one of these.
"""

import math
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Gaussian(NamedTuple):
    """Independent normal distributions, one per action dimension."""

    mean: Float[Array, "*batch action"]
    log_std: Float[Array, "*batch action"]

    def mode(self) -> jax.Array:
        """The most likely action μ."""
        return self.mean

    def sample(self, key: Key[Array, ""]) -> jax.Array:
        """μ + σ·noise."""
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        return self.mean + jnp.exp(self.log_std) * noise

    def log_prob(self, action: Float[Array, "*batch action"]) -> jax.Array:
        """Σ −½((a − μ)/σ)² − log σ − ½ log 2π."""
        _check_shape(action, self.mean)
        z = (action - self.mean) * jnp.exp(-self.log_std)
        return jnp.sum(-0.5 * z**2 - self.log_std - HALF_LOG_2PI, axis=-1)

    def entropy(self) -> jax.Array:
        """Σ log σ + ½ log 2πe."""
        return jnp.sum(self.log_std + HALF_LOG_2PI + 0.5, axis=-1)

    def kl(self, other: Self) -> jax.Array:
        """KL(self‖other) = Σ log σ₂/σ₁ + (σ₁² + (μ₁ − μ₂)²)/2σ₂² − ½."""
        difference = other.log_std - self.log_std
        z = (self.mean - other.mean) * jnp.exp(-other.log_std)
        return jnp.sum(
            difference + 0.5 * (jnp.exp(-2 * difference) + z**2 - 1), axis=-1
        )


class Categorical(NamedTuple):
    """One of n discrete actions, by unnormalised log-probabilities."""

    logits: Float[Array, "*batch n"]

    def mode(self) -> jax.Array:
        """The most likely action."""
        return jnp.argmax(self.logits, axis=-1)

    def sample(self, key: Key[Array, ""]) -> jax.Array:
        """An action, drawn by its probability."""
        return jax.random.categorical(key, self.logits)

    def log_prob(self, action: Int[Array, "*batch"]) -> jax.Array:
        """The logarithm of the action's probability."""
        _check_shape(action, self.logits[..., 0])
        chosen = action.astype(int)[..., None]
        return jnp.take_along_axis(self._log_probs, chosen, axis=-1)[..., 0]

    def entropy(self) -> jax.Array:
        """−Σ p log p."""
        return -jnp.sum(jnp.exp(self._log_probs) * self._log_probs, axis=-1)

    def kl(self, other: Self) -> jax.Array:
        """KL(self‖other) = Σ p₁ (log p₁ − log p₂)."""
        log_ratio = self._log_probs - other._log_probs
        return jnp.sum(jnp.exp(self._log_probs) * log_ratio, axis=-1)

    @property
    def _log_probs(self) -> jax.Array:
        return jax.nn.log_softmax(self.logits)


class MultiCategorical(NamedTuple):
    """Several independent discrete actions at once."""

    parts: tuple[Categorical, ...]

    def mode(self) -> jax.Array:
        """The most likely action of every part."""
        return jnp.stack([part.mode() for part in self.parts], axis=-1)

    def sample(self, key: Key[Array, ""]) -> jax.Array:
        """An action of every part."""
        keys = jax.random.split(key, len(self.parts))
        draws = zip(self.parts, keys, strict=True)
        return jnp.stack([part.sample(own) for part, own in draws], axis=-1)

    def log_prob(self, action: Int[Array, "*batch action"]) -> jax.Array:
        """Σ log pᵢ(aᵢ)."""
        batch = self.parts[0].logits.shape[:-1]
        _check_shape(action, jax.ShapeDtypeStruct((*batch, len(self.parts)), int))
        each = [part.log_prob(action[..., i]) for i, part in enumerate(self.parts)]
        return sum(each[1:], each[0])

    def entropy(self) -> jax.Array:
        """Σ of the parts' entropies."""
        each = [part.entropy() for part in self.parts]
        return sum(each[1:], each[0])

    def kl(self, other: Self) -> jax.Array:
        """KL(self‖other), summed over the parts."""
        pairs = zip(self.parts, other.parts, strict=True)
        each = [part.kl(another) for part, another in pairs]
        return sum(each[1:], each[0])


class Bernoulli(NamedTuple):
    """Independent switches, by the log-odds of 1."""

    logits: Float[Array, "*batch n"]

    def mode(self) -> jax.Array:
        """1 where it is more likely than 0."""
        return (self.logits > 0).astype(int)

    def sample(self, key: Key[Array, ""]) -> jax.Array:
        """Each switch is 1 with its probability."""
        return jax.random.bernoulli(key, jax.nn.sigmoid(self.logits)).astype(int)

    def log_prob(self, action: Int[Array, "*batch n"]) -> jax.Array:
        """Σ log p where the switch is 1, log(1 − p) where it is 0."""
        _check_shape(action, self.logits)
        signed = jnp.where(action.astype(bool), self.logits, -self.logits)
        return jnp.sum(jax.nn.log_sigmoid(signed), axis=-1)

    def entropy(self) -> jax.Array:
        """−Σ p log p + (1 − p) log(1 − p)."""
        return -jnp.sum(self._expected(self.logits), axis=-1)

    def kl(self, other: Self) -> jax.Array:
        """KL(self‖other), summed over the switches."""
        gap = self._expected(self.logits) - self._expected(other.logits)
        return jnp.sum(gap, axis=-1)

    def _expected(self, logits: jax.Array) -> jax.Array:
        """The mean under self of the log-probability by other `logits`."""
        p = jax.nn.sigmoid(self.logits)
        return p * jax.nn.log_sigmoid(logits) + (1 - p) * jax.nn.log_sigmoid(-logits)


class TanhGaussian(NamedTuple):
    """The tanh of independent normal variables: actions in (−1, 1)."""

    mean: Float[Array, "*batch action"]
    log_std: Float[Array, "*batch action"]

    def mode(self) -> jax.Array:
        """The greedy action tanh(μ): the distribution's median, not its mode."""
        return jnp.tanh(self.mean)

    def sample(self, key: Key[Array, ""]) -> jax.Array:
        """The tanh of μ + σ·noise."""
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        return self.reparameterize(noise)[0]

    def reparameterize(
        self, noise: Float[Array, "*batch action"]
    ) -> tuple[jax.Array, jax.Array]:
        """The action a = tanh(u), u = μ + σ·noise, and its log-probability.

        log π(a) = log N(u; μ, σ) − Σ log(1 − tanh² u). The last logarithm is computed
        as 2 (log 2 − u − softplus(−2u)), which stays exact where tanh u rounds to ±1.
        """
        u = self.mean + jnp.exp(self.log_std) * noise
        normal = jnp.sum(-0.5 * noise**2 - self.log_std - HALF_LOG_2PI, axis=-1)
        squash = jnp.sum(2 * (math.log(2) - u - jax.nn.softplus(-2 * u)), axis=-1)
        return jnp.tanh(u), normal - squash


def _check_shape(action: jax.Array, expected: jax.Array | jax.ShapeDtypeStruct) -> None:
    """Raises an error where NumPy's rules would silently broadcast."""
    if action.shape != expected.shape:
        raise ValueError(
            f"actions have shape {action.shape}, but the policy expects "
            f"{expected.shape}"
        )
