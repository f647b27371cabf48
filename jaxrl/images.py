"""The encoder of images (Mnih et al., 2015, doi:10.1038/nature14236), in NumPy.

    32 filters 8x8, stride 4;  64 filters 4x4, stride 2;  64 filters 3x3, stride 1;
    512 units;  ReLU after each; then one linear layer

As in the paper there is no padding. An image with a side under 36 pixels would vanish
on the way, so it is padded with zeros: a layer only divides its sides by its stride.
Free of JAX; `maths.trunks` has the same as a Linen module.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from jaxrl.spaces import Image

LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # filters, their side, their stride
UNITS = 512
SMALLEST = 36  # the shortest side for which a filter fits into every layer

Pads = tuple[tuple[int, int], tuple[int, int]]


def paddings(image: Image) -> list[Pads]:
    """Zeros above and below, left and right of the input of each layer."""
    sides = list(image.height_width_channels[:2])
    padded = min(sides) < SMALLEST
    found = []
    for _, kernel, stride in LAYERS:
        pads = [(0, 0), (0, 0)]
        for i, side in enumerate(sides):
            if padded:
                sides[i] = -(-side // stride)
                missing = max((sides[i] - 1) * stride + kernel - side, 0)
                pads[i] = (missing // 2, missing - missing // 2)
            else:
                sides[i] = (side - kernel) // stride + 1
        found.append((pads[0], pads[1]))
    return found


def features(image: Image) -> int:
    """Length of what the convolutions make of an image."""
    sides = image.height_width_channels[:2]
    for (_, side, stride), pads in zip(LAYERS, paddings(image), strict=True):
        padded = [size + sum(both) for size, both in zip(sides, pads, strict=True)]
        sides = ((padded[0] - side) // stride + 1, (padded[1] - side) // stride + 1)
    return sides[0] * sides[1] * LAYERS[-1][0]


def encoded(
    image: Image,
    filters: Sequence[tuple[np.ndarray, np.ndarray]],
    obs: np.ndarray,
) -> np.ndarray:
    """Features [..., n] of flat images, by the kernel and bias of each layer."""
    x = obs.reshape(-1, *image.shape) / np.float32(image.high)
    x = np.moveaxis(x, 1, -1) if image.channels_first else x
    layers = zip(filters, LAYERS, paddings(image), strict=True)
    for (kernel, bias), (_, _, stride), pads in layers:
        x = np.maximum(_convolved(x, kernel, stride, pads) + bias, 0)
    return x.reshape(*obs.shape[:-1], -1)


def _convolved(
    x: np.ndarray, kernel: np.ndarray, stride: int, pads: Pads
) -> np.ndarray:
    """[batch, H, W, C] by a kernel [side, side, C, features]."""
    x = np.pad(x, ((0, 0), *pads, (0, 0)))
    sides = kernel.shape[:2]
    windows = np.lib.stride_tricks.sliding_window_view(x, sides, axis=(1, 2))
    windows = windows[:, ::stride, ::stride]  # [batch, H', W', C, side, side]
    batch, height, width = windows.shape[:3]
    rows = windows.transpose(0, 1, 2, 4, 5, 3).reshape(batch * height * width, -1)
    flat = kernel.reshape(-1, kernel.shape[-1])
    return (rows @ flat).reshape(batch, height, width, -1)


def fits(image: Image, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether kernels of these shapes are the encoder's for this image."""
    channels = [image.height_width_channels[2], *(layer[0] for layer in LAYERS)]
    expected = [
        (kernel, kernel, before, after)
        for (_, kernel, _), (before, after) in zip(
            LAYERS, itertools.pairwise(channels), strict=True
        )
    ]
    return list(shapes) == expected
