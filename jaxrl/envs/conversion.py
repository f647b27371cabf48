"""From gymnasium's spaces to the library's: flat observations, scaled actions."""

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from jaxrl.spaces import Box, Discrete, EnvSpec, Image, MultiBinary, MultiDiscrete

# A Box of three dimensions that is real-valued, or of two, is an image from this height
# and width on.
SMALLEST_IMAGE = 8


def spec_of(env: gym.Env | gym.vector.VectorEnv) -> EnvSpec:
    """The spec of an environment; observations are flattened to vectors."""
    if not isinstance(getattr(env, "observation_space", None), gym.Space):
        raise TypeError(
            f"spec_of takes a gymnasium environment, got {env!r}; make one with "
            "gymnasium.make"
        )
    single = getattr(env, "single_observation_space", None)
    space = env.observation_space if single is None else single
    actions = getattr(env, "single_action_space", env.action_space)
    image = _image(space)
    return EnvSpec(
        _flat_size(space),
        action_space(actions),
        image,
        image_part=image is None and _holds_image(space),
    )


def _flat_size(space: gym.Space) -> int:
    if isinstance(space, spaces.Box):
        return math.prod(space.shape)
    flat: gym.Space
    try:
        flat = spaces.flatten_space(space)
    except NotImplementedError:
        flat = space
    if isinstance(flat, spaces.Box):
        return math.prod(flat.shape)
    raise ValueError(
        f"the observation space {type(space).__name__} has no fixed size, so it cannot "
        "be flattened; wrap the environment in one that observes a Box, Dict, Tuple, "
        "Discrete, MultiDiscrete or MultiBinary"
    )


def _image(space: gym.Space) -> Image | None:
    """Of a Box [H, W, C] or [C, H, W]: of uint8, or real from 0 to 1 or 255.

    Or of a grey image [H, W] of uint8 up to 255, as GrayscaleObservation makes it.
    """
    if _is_grey(space):
        height, width = space.shape
        return Image((height, width, 1))
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return None
    # The channels are the first side if that is the smallest, as in a stack of frames.
    channels_first = space.shape[0] < min(space.shape[1:])
    if space.dtype == np.uint8:
        return Image(space.shape, channels_first)
    high = float(space.high.max())
    sides = space.shape[1:] if channels_first else space.shape[:2]
    real = np.issubdtype(space.dtype, np.floating) and min(sides) >= SMALLEST_IMAGE
    if real and high in (1.0, 255.0) and float(space.low.min()) == 0:
        return Image(space.shape, channels_first, high, "float32")
    return None


def _is_grey(space: gym.Space) -> TypeGuard[spaces.Box]:
    if not isinstance(space, spaces.Box) or len(space.shape) != 2:
        return False
    large = min(space.shape) >= SMALLEST_IMAGE
    return large and space.dtype == np.uint8 and int(space.high.max()) == 255


def _holds_image(space: gym.Space) -> bool:
    """Whether an image is a part of it; so are the images of a stack [N, H, W, C]."""
    if isinstance(space, spaces.Dict):
        return any(map(_holds_image, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return any(map(_holds_image, space.spaces))
    if isinstance(space, spaces.Box) and len(space.shape) == 4:
        dtype: Any = space.dtype
        one = spaces.Box(space.low[0], space.high[0], dtype=dtype)
        return _image(one) is not None
    return _image(space) is not None


def action_space(space: gym.Space) -> Box | Discrete | MultiDiscrete | MultiBinary:
    """The action space in jaxrl's types; raises for one that it has not."""
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n), int(space.start))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return Box(tuple(space.low.ravel()), tuple(space.high.ravel()))
    if isinstance(space, spaces.MultiDiscrete):
        return MultiDiscrete(tuple(space.nvec.ravel()), tuple(space.start.ravel()))
    if isinstance(space, spaces.MultiBinary):
        return MultiBinary(math.prod(space.shape))
    raise ValueError(
        "jaxrl supports real Box, Discrete, MultiDiscrete and MultiBinary actions, but "
        f"the environment takes {space}; wrap it in one that takes one of these"
    )


def flattener(space: gym.Space) -> Callable[[Any], np.ndarray]:
    """Makes one observation a vector, as gymnasium does."""
    if isinstance(space, spaces.Box):
        return np.ravel
    return functools.partial(_flatten, space)


def _flatten(space: gym.Space, obs: Any) -> np.ndarray:
    return np.asarray(spaces.flatten(space, obs))


def action_scaler(space: gym.Space) -> Callable[[np.ndarray], Iterable]:
    """Maps the library's actions [N, ...] to those of N environments."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return lambda action: (action + start).tolist()
    assert space.shape is not None
    bounds, shape = action_space(space), (-1, *space.shape)
    if isinstance(space, spaces.Box):
        low, high = space.low, space.high
        plain = low.ndim == 1 and low.dtype == np.float32
        if plain and np.all(low == -1) and np.all(high == 1):
            return lambda action: np.minimum(np.maximum(action, low), high)  # fastest
    return lambda action: bounds.scale(action).reshape(shape).astype(space.dtype)


def with_flat_spaces(env: gym.Env) -> gym.Env:
    """The environment with flat observations and actions."""
    space = env.action_space
    env = gym.wrappers.FlattenObservation(env)
    flat: gym.Space
    if isinstance(space, spaces.Box):
        flat = spaces.flatten_space(space)
    elif isinstance(space, spaces.MultiDiscrete):
        start = space.start.ravel()
        flat = spaces.MultiDiscrete(space.nvec.ravel(), space.dtype, start=start)
    elif isinstance(space, spaces.MultiBinary):
        flat = spaces.MultiBinary(math.prod(space.shape))
    else:
        return env
    shape, dtype = space.shape, space.dtype
    return gym.wrappers.TransformAction(
        env, lambda action: np.reshape(action, shape).astype(dtype), flat
    )
