"""A policy in NumPy, equal to the algorithm's `act` up to rounding.

It acts on the host, where a jitted call would cost more, and is what a run saves and
`jaxrl export` writes: one .npz file, which holds arrays (weight_0, bias_0, ...,
log_std, mean and std of the observations, low and high of the actions) and in `about`
the rest as JSON.
"""

import dataclasses
import functools
import itertools
import json
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np

from jaxrl.spaces import Box, Discrete

# What a damaged file can raise, on its way through zip, NumPy and JSON.
DAMAGE = (
    *(KeyError, ValueError, TypeError, EOFError, RuntimeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error),
)
LARGEST = 2**30  # bytes of its arrays; a small file can unfold to any size
FORMAT = 1  # of the file; to be raised when an older jaxrl would misread it

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
}
HEADS = ("gaussian", "categorical", "tanh_gaussian", "deterministic")


class Newer(Exception):
    """The file has what only a later version knows."""


@dataclasses.dataclass
class Policy:
    """Dense layers, what is done with their output, and how observations are whitened.

    `head` is one of `HEADS`. `action` is the space that actions are scaled to; without
    it they are the library's own, from -1 to 1 or from 0.
    """

    layers: list[tuple[np.ndarray, np.ndarray]]
    activation: str
    head: str
    log_std: np.ndarray | float = 0.0
    noise: float = 0.0
    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    clip: float = 10.0
    action: Box | Discrete | None = None

    def __call__(
        self, obs: np.ndarray, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """With a generator an exploring action, without one the greedy action."""
        x = np.asarray(obs, np.float32)
        if x.shape[-1:] != (self.obs_size,):
            raise ValueError(
                f"the policy takes observations [..., {self.obs_size}], got {x.shape}"
            )
        if self.mean is not None:
            x = _clipped((x - self.mean) / self.std, self.clip)
        activate = ACTIVATIONS[self.activation]
        for weight, bias in self.layers[:-1]:
            x = activate(np.dot(x, weight) + bias)
        weight, bias = self.layers[-1]
        action = getattr(self, f"_{self.head}")(np.dot(x, weight) + bias, rng)
        return action if self.action is None else self.action.scale(action)

    @property
    def obs_size(self) -> int:
        """Numbers in one observation."""
        return len(self.layers[0][0])

    def save(self, path: str | Path) -> None:
        """Writes the file that `load` reads."""
        arrays: dict[str, Any] = {"log_std": np.asarray(self.log_std)}
        for i, (weight, bias) in enumerate(self.layers):
            arrays |= {f"weight_{i}": weight, f"bias_{i}": bias}
        if self.mean is not None and self.std is not None:
            arrays |= {"mean": self.mean, "std": self.std}
        names = ("activation", "head", "noise", "clip")
        about: dict[str, Any] = {name: getattr(self, name) for name in names}
        about |= {"format": FORMAT, "layers": len(self.layers)}
        if isinstance(self.action, Box):
            arrays |= {name: np.array(x) for name, x in vars(self.action).items()}
        elif self.action is not None:
            about["discrete"] = vars(self.action)
        with Path(path).open("wb") as file:
            np.savez(file, about=np.array(json.dumps(about)), **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The policy in a file of `save`: arrays and JSON, nothing that could run."""
        try:
            with (
                Path(path).open("rb") as file,
                np.load(file, allow_pickle=False) as held,
            ):
                if sum(part.file_size for part in held.zip.infolist()) > LARGEST:
                    raise ValueError
                return cls._of(dict(held))
        except Newer:
            raise ValueError(f"{path} cannot be read: a newer jaxrl wrote it") from None
        except DAMAGE:  # whose words are NumPy's and zip's, and no help
            raise ValueError(f"{path} holds no policy, or a damaged one") from None

    @classmethod
    def _of(cls, arrays: dict[str, Any]) -> Self:
        about = json.loads(str(arrays.pop("about")))
        if about.pop("format") > FORMAT:
            raise Newer
        if about["head"] not in HEADS or about["activation"] not in ACTIVATIONS:
            raise Newer
        indices = range(about.pop("layers"))
        layers = [(arrays.pop(f"weight_{i}"), arrays.pop(f"bias_{i}")) for i in indices]
        action: Box | Discrete | None = None
        if discrete := about.pop("discrete", None):
            action = Discrete(**discrete)
        elif "low" in arrays:
            action = Box(tuple(arrays.pop("low")), tuple(arrays.pop("high")))
        if not all(map(_are_numbers, itertools.chain(*layers, arrays.values()))):
            raise ValueError
        return cls(layers=layers, action=action, **about, **arrays)

    def _gaussian(
        self, mean: np.ndarray, rng: np.random.Generator | None
    ) -> np.ndarray:
        if rng is None:
            return mean
        draws = rng.standard_normal(mean.shape, np.float32)
        return mean + self._std * draws

    @functools.cached_property
    def _std(self) -> np.ndarray:
        return np.exp(self.log_std)

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
        return _clipped(action + self.noise * draws, 1)


def _are_numbers(x: np.ndarray) -> bool:
    return np.issubdtype(x.dtype, np.floating) and bool(np.isfinite(x).all())


def _clipped(x: np.ndarray, limit: float) -> np.ndarray:
    """Quicker than `clip`, for few numbers."""
    return np.minimum(np.maximum(x, -limit), limit)
