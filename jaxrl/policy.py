"""A policy in NumPy, equal to the algorithm's `act` up to rounding.

It acts on the host, where a jitted call would be slower, and is what a run saves and
`jaxrl export` writes: one .npz file with arrays (weight_0, bias_0, ..., log_std, mean
and std of the observations, low and high of the actions, kernel_0, kernel_bias_0, ...
of an encoder of images) and `about`, the rest as JSON.
It does not import JAX.
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

from jaxrl import files, images
from jaxrl.settings import Activation
from jaxrl.spaces import ActionSpace, Box, Discrete, Image, MultiBinary, MultiDiscrete

# What zip, NumPy and JSON can raise for a damaged file.
FILE_ERRORS = (
    *(KeyError, ValueError, TypeError, EOFError, RuntimeError, MemoryError),
    *(AttributeError, OverflowError, IndexError),
    *(zipfile.BadZipFile, zlib.error),
)
MAX_BYTES = files.MODEL  # of the unzipped arrays; a small file can unzip to any size
FORMAT = 1  # of the file; raise it when an older jaxrl would misread the file

# The names are also those of flax.linen, from which `maths.nets` takes them.
ACTIVATIONS: dict[Activation, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}
LOG_STD_RANGE = (-20, 2)  # to which a TanhGaussian's log σ is clipped
HEADS: tuple[str, ...] = ("gaussian", "tanh_gaussian", "deterministic")
HEADS += ("categorical", "multi_categorical", "bernoulli")
SPACES = {  # of actions, by their names in the file; a Box is in its arrays
    "discrete": Discrete,
    "multi_discrete": MultiDiscrete,
    "multi_binary": MultiBinary,
}


class NewerFormat(Exception):
    """The file was written by a newer version of jaxrl."""


@dataclasses.dataclass(repr=False)
class Policy:
    """Observation normaliser, dense layers, and a head that turns outputs into actions.

    `head` is one of `HEADS`. Actions are scaled to the space `action`; if it is None,
    they stay in [-1, 1], or count from 0. An `image` first passes through `filters`,
    the kernels and biases of its encoder; then every activation is a ReLU.
    """

    layers: list[tuple[np.ndarray, np.ndarray]]
    activation: Activation
    head: str
    log_std: np.ndarray | float = 0.0
    noise: float = 0.0
    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    clip: float = 10.0
    action: ActionSpace | None = None
    nvec: tuple[int, ...] = ()
    image: Image | None = None
    filters: list[tuple[np.ndarray, np.ndarray]] = dataclasses.field(
        default_factory=list
    )

    def __call__(
        self, obs: np.ndarray, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """An exploring action with a generator, the greedy action without."""
        x = np.asarray(obs, np.float32)
        if x.shape[-1:] != (self.obs_size,):
            raise ValueError(
                f"the policy expects observations [..., {self.obs_size}], "
                f"got shape {x.shape}"
            )
        if self.mean is not None:
            x = _clip((x - self.mean) / self.std, self.clip)
        if self.image is not None:
            x = images.encoded(self.image, self.filters, x)
        activate = ACTIVATIONS[self.activation]
        for weight, bias in self.layers[:-1]:
            x = activate(np.dot(x, weight) + bias)
        weight, bias = self.layers[-1]
        action = getattr(self, f"_{self.head}")(np.dot(x, weight) + bias, rng)
        return action if self.action is None else self.action.scale(action)

    def __repr__(self) -> str:
        """Short, for a notebook: no arrays."""
        convolved = [len(bias) for _, bias in self.filters]
        sizes = [self.obs_size, *convolved, *(len(bias) for _, bias in self.layers)]
        return f"Policy({' -> '.join(map(str, sizes))}, {self.activation}, {self.head})"

    @property
    def obs_size(self) -> int:
        """Length of an observation."""
        return self.image.size if self.image else len(self.layers[0][0])

    def save(self, path: str | Path) -> None:
        """Writes the file that `load` reads, as a whole or not at all."""
        arrays: dict[str, Any] = {"log_std": np.asarray(self.log_std)}
        for i, (weight, bias) in enumerate(self.layers):
            arrays |= {f"weight_{i}": weight, f"bias_{i}": bias}
        for i, (kernel, bias) in enumerate(self.filters):
            arrays |= {f"kernel_{i}": kernel, f"kernel_bias_{i}": bias}
        if self.mean is not None and self.std is not None:
            arrays |= {"mean": self.mean, "std": self.std}
        names = ("activation", "head", "noise", "clip")
        about: dict[str, Any] = {name: getattr(self, name) for name in names}
        about |= {"format": FORMAT, "layers": len(self.layers)}
        if isinstance(self.action, Box):
            arrays |= {name: np.array(x) for name, x in vars(self.action).items()}
        for name, kind in SPACES.items():
            if type(self.action) is kind:
                about[name] = vars(self.action)
        if self.nvec:
            about["nvec"] = self.nvec
        if self.image:
            about["image"] = vars(self.image)
        with files.replacing(Path(path)) as fresh, fresh.open("wb") as file:
            np.savez(file, about=np.array(json.dumps(about)), **arrays)

    @classmethod
    def load(cls, path: str | Path, inside: Path | None = None) -> Self:
        """Reads a file of `save`; it holds arrays and JSON, and no code is run.

        With `inside`, no link is followed out of that directory.
        """
        try:
            with (
                files.open_regular(Path(path), files.MODEL, inside) as file,
                np.load(file, allow_pickle=False) as archive,
            ):
                if sum(part.file_size for part in archive.zip.infolist()) > MAX_BYTES:
                    raise ValueError
                return cls._from_arrays(dict(archive))
        except NewerFormat:
            raise ValueError(
                f"{path} was written by a newer jaxrl; update jaxrl"
            ) from None
        except FILE_ERRORS:  # their messages do not help a user
            raise ValueError(f"{path} is damaged or not a policy file") from None

    @classmethod
    def _from_arrays(cls, arrays: dict[str, Any]) -> Self:
        about = json.loads(str(arrays.pop("about")))
        if about.pop("format") > FORMAT:
            raise NewerFormat
        if about["head"] not in HEADS or about["activation"] not in ACTIVATIONS:
            raise NewerFormat
        indices = range(about.pop("layers"))
        layers = [(arrays.pop(f"weight_{i}"), arrays.pop(f"bias_{i}")) for i in indices]
        action: ActionSpace | None = None
        for name, kind in SPACES.items():
            if space := about.pop(name, None):
                action = kind(**space)
        if "low" in arrays:
            if action is not None:
                raise ValueError
            action = Box(tuple(arrays.pop("low")), tuple(arrays.pop("high")))
        if image := about.pop("image", None):
            about |= {"image": Image(**image), "filters": _filters(image, arrays)}
        if "nvec" in about:
            about["nvec"] = tuple(map(int, about["nvec"]))
        both = (*layers, *about.get("filters", []))
        if not all(map(_all_finite, itertools.chain(*both, arrays.values()))):
            raise ValueError
        policy = cls(layers=layers, action=action, **about, **arrays)
        if not _fits_together(policy):
            raise ValueError
        return policy

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
        if rng is not None:  # Gumbel-max: its argmax is a sample
            draws = rng.standard_exponential(logits.shape, np.float32)
            with np.errstate(divide="ignore"):  # a draw can be 0; that action is taken
                logits = logits - np.log(draws)
        return logits.argmax(axis=-1)

    def _multi_categorical(
        self, logits: np.ndarray, rng: np.random.Generator | None
    ) -> np.ndarray:
        parts = np.split(logits, list(itertools.accumulate(self.nvec))[:-1], axis=-1)
        return np.stack([self._categorical(part, rng) for part in parts], axis=-1)

    def _bernoulli(
        self, logits: np.ndarray, rng: np.random.Generator | None
    ) -> np.ndarray:
        if rng is not None:  # a logistic variable exceeds −logit with probability p
            draws = rng.random(logits.shape, np.float32)
            logits = logits + np.log(draws) - np.log1p(-draws)
        return (logits > 0).astype(np.int64)

    def _tanh_gaussian(
        self, output: np.ndarray, rng: np.random.Generator | None
    ) -> np.ndarray:
        mean, log_std = np.split(output, 2, axis=-1)
        if rng is not None:
            draws = rng.standard_normal(mean.shape, np.float32)
            mean = mean + np.exp(log_std.clip(*LOG_STD_RANGE)) * draws
        return np.tanh(mean)

    def _deterministic(
        self, output: np.ndarray, rng: np.random.Generator | None
    ) -> np.ndarray:
        action = np.tanh(output)
        if rng is None:
            return action
        draws = rng.standard_normal(action.shape, np.float32)
        return _clip(action + self.noise * draws, 1)


def _filters(image: dict[str, Any], arrays: dict[str, Any]) -> list:
    """The encoder's kernels and biases, taken out of the arrays of a file."""
    names = [(f"kernel_{i}", f"kernel_bias_{i}") for i in range(len(images.LAYERS))]
    filters = [(arrays.pop(kernel), arrays.pop(bias)) for kernel, bias in names]
    if not images.fits(Image(**image), [kernel.shape for kernel, _ in filters]):
        raise ValueError
    return filters


def _fits_together(policy: Policy) -> bool:
    """Whether each layer takes what the one before it gives, and the head the last."""
    inputs, action = policy.obs_size, policy.action
    outputs = images.features(policy.image) if policy.image else inputs
    for weight, bias in policy.layers:
        if weight.shape != (outputs, len(bias)) or bias.ndim != 1:
            return False
        outputs = len(bias)
    discrete = vars(action) if isinstance(action, Discrete | MultiBinary) else {}
    size = outputs / 2 if policy.head == "tanh_gaussian" else outputs
    several = policy.head == "multi_categorical"
    return (
        size == (action.size if action else size // 1)
        and sum(policy.nvec) == (size if several else 0)
        and np.shape(policy.log_std) in ((), (size,))
        and (policy.mean is None) == (policy.std is None)
        and all(x is None or x.shape == (inputs,) for x in (policy.mean, policy.std))
        and all(type(x) is int for x in discrete.values())
        and all(type(x) in (int, float) for x in (policy.noise, policy.clip))
    )


def _all_finite(x: np.ndarray) -> bool:
    return np.issubdtype(x.dtype, np.floating) and bool(np.isfinite(x).all())


def _clip(x: np.ndarray, limit: float) -> np.ndarray:
    """As `np.clip`, but faster for small arrays."""
    return np.minimum(np.maximum(x, -limit), limit)
