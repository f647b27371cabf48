"""A policy in NumPy, which acts on the host where a jitted call would cost more.

Equal to the algorithm's `act` up to rounding.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
}


@dataclasses.dataclass
class Policy:
    """Dense layers, what is done with their output, and how observations are whitened.

    `head` is gaussian, categorical, tanh_gaussian or deterministic.
    """

    layers: list[tuple[np.ndarray, np.ndarray]]
    activation: str
    head: str
    log_std: np.ndarray | float = 0.0
    noise: float = 0.0
    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    clip: float = 10.0

    def __call__(
        self, obs: np.ndarray, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """With a generator an exploring action, without one the greedy action."""
        x = obs
        if self.mean is not None:
            x = ((x - self.mean) / self.std).clip(-self.clip, self.clip)
        activate = ACTIVATIONS[self.activation]
        for weight, bias in self.layers[:-1]:
            x = activate(x @ weight + bias)
        weight, bias = self.layers[-1]
        return getattr(self, f"_{self.head}")(x @ weight + bias, rng)

    def _gaussian(
        self, mean: np.ndarray, rng: np.random.Generator | None
    ) -> np.ndarray:
        if rng is None:
            return mean
        draws = rng.standard_normal(mean.shape, np.float32)
        return mean + np.exp(self.log_std) * draws

    def _categorical(
        self, logits: np.ndarray, rng: np.random.Generator | None
    ) -> np.ndarray:
        if rng is not None:  # the largest of Gumbel's variables is a sample
            logits = logits - np.log(rng.standard_exponential(logits.shape, np.float32))
        return logits.argmax(axis=-1)

    def _tanh_gaussian(
        self, output: np.ndarray, rng: np.random.Generator | None
    ) -> np.ndarray:
        mean, log_std = np.split(output, 2, axis=-1)
        if rng is not None:
            draws = rng.standard_normal(mean.shape, np.float32)
            mean = mean + np.exp(log_std.clip(-20, 2)) * draws
        return np.tanh(mean)

    def _deterministic(
        self, output: np.ndarray, rng: np.random.Generator | None
    ) -> np.ndarray:
        action = np.tanh(output)
        if rng is None:
            return action
        draws = rng.standard_normal(action.shape, np.float32)
        return (action + self.noise * draws).clip(-1, 1)
