"""Bodies of networks: dense layers, and an encoder of images."""

import itertools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl import images
from jaxrl.maths import dense
from jaxrl.settings import Activation, Initializer, Widths
from jaxrl.types import Image


def orthogonal(scale: float) -> nn.initializers.Initializer:
    """Orthogonal weights, under vmap one matrix after the other.

    XLA's decomposition of several matrices on a CPU waits for threads of the pool that
    it runs in, and two of them at a time can deadlock.
    """
    init = nn.initializers.orthogonal(scale)

    def one_by_one(key: jax.Array, shape: Any, dtype: Any = float) -> jax.Array:
        one = jax.custom_batching.sequential_vmap(lambda key: init(key, shape, dtype))
        return one(key)

    return one_by_one


def uniform(scale: float) -> nn.initializers.Initializer:
    """Uniform in ±scale."""

    def init(key: jax.Array, shape: Any, dtype: Any = float) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, -scale, scale)

    return init


INITIALIZERS: dict[Initializer, Callable[[float], nn.initializers.Initializer]] = {
    "orthogonal": orthogonal,
    # Uniform in ±scale/√(inputs), as PyTorch's linear layer.
    "uniform": lambda scale: nn.initializers.variance_scaling(
        scale**2 / 3, "fan_in", "uniform"
    ),
}
BIASES: dict[Initializer, Callable[[int], nn.initializers.Initializer]] = {
    "orthogonal": lambda inputs: nn.initializers.zeros_init(),
    "uniform": lambda inputs: uniform(inputs**-0.5),  # as PyTorch's
}


class MLP(nn.Module):
    """Dense layers of the given widths, each but the last followed by `activation`."""

    widths: Widths
    activation: Activation = "relu"
    initializer: Initializer = "uniform"
    last_scale: float = 1.0
    """Factor of the last layer's initial weights."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """The last layer's output."""
        # With this gain an orthogonal layer and a ReLU keep the scale of their input.
        gain = 2**0.5 if self.initializer == "orthogonal" else 1.0
        make = INITIALIZERS[self.initializer]
        *inner, last = self.widths
        for width in inner:
            x = self._dense(width, make(gain), x)
            x = getattr(nn, self.activation)(x)
        return self._dense(last, make(self.last_scale), x)

    def _dense(
        self, width: int, initializer: nn.initializers.Initializer, x: jax.Array
    ) -> jax.Array:
        layer = nn.Dense(
            width,
            kernel_init=initializer,
            bias_init=BIASES[self.initializer](x.shape[-1]),
            param_dtype=float,
            dot_general=dense.dot_general,
        )
        return layer(x)


class Conv(nn.Module):
    """A convolution of images [batch, H, W, C] whose stride divides the kernel's side.

    As one matrix product, for which XLA is many times faster on a CPU: blocks of
    stride x stride pixels become channels, and the kernel covers a few blocks.
    """

    features: int
    side: int
    stride: int
    pads: images.Pads
    kernel_init: nn.initializers.Initializer

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """The convolution's output."""
        side, stride, channels = self.side, self.stride, x.shape[-1]
        shape = (side, side, channels, self.features)
        kernel = self.param("kernel", self.kernel_init, shape, float)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), float)
        blocks = side // stride
        x = jnp.pad(x, ((0, 0), *self.pads, (0, 0)))
        height, width = ((size - side) // stride + 1 for size in x.shape[1:3])
        rows, columns = height + blocks - 1, width + blocks - 1
        x = x[:, : rows * stride, : columns * stride]
        x = x.reshape(-1, rows, stride, columns, stride, channels)
        x = x.swapaxes(2, 3).reshape(-1, rows, columns, stride * stride * channels)
        shifts = itertools.product(range(blocks), repeat=2)
        parts = [x[:, i : i + height, j : j + width] for i, j in shifts]
        x = jnp.concatenate(parts, axis=-1)  # [batch, height, width, side²·C]
        kernel = kernel.reshape(blocks, stride, blocks, stride, channels, -1)
        kernel = kernel.swapaxes(1, 2).reshape(-1, self.features)
        return x @ kernel + jnp.broadcast_to(bias, (*x.shape[:-1], self.features))


class NatureCNN(nn.Module):
    """Flat images [..., H·W·C] of values up to `image.high` to `size` outputs.

    The convolutions of `jaxrl.images`, 512 units and one linear layer.
    """

    image: Image
    size: int
    initializer: Initializer = "orthogonal"
    last_scale: float = 1.0
    """Factor of the last layer's initial weights."""

    @nn.compact
    def __call__(self, obs: jax.Array) -> jax.Array:
        """The last layer's output for flat images."""
        make = INITIALIZERS[self.initializer]
        gain = make(2**0.5)
        x = obs.astype(float).reshape(-1, *self.image.shape) / self.image.high
        x = jnp.moveaxis(x, 1, -1) if self.image.channels_first else x
        layers = zip(images.LAYERS, images.paddings(self.image), strict=True)
        for (features, side, stride), pads in layers:
            x = nn.relu(Conv(features, side, stride, pads, gain)(x))
        x = x.reshape(*obs.shape[:-1], -1)
        x = nn.relu(nn.Dense(images.UNITS, kernel_init=gain, param_dtype=float)(x))
        last = make(self.last_scale)
        return nn.Dense(self.size, kernel_init=last, param_dtype=float)(x)
