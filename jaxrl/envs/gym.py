"""Gymnasium's environments, as the library sees them."""

import math

import gymnasium as gym

from jaxrl.types import Box, Discrete, EnvSpec


def spec_of(env: gym.Env | gym.vector.VectorEnv) -> EnvSpec:
    """The spec of an environment with Box observations, which are flattened."""
    single = getattr(env, "single_observation_space", None)
    space = env.observation_space if single is None else single
    if not isinstance(space, gym.spaces.Box):
        raise ValueError(
            f"jaxrl takes Box observations, but the environment gives a "
            f"{type(space).__name__}; wrap it in gymnasium.wrappers.FlattenObservation"
        )
    actions = getattr(env, "single_action_space", env.action_space)
    return EnvSpec(math.prod(space.shape), _action_space(actions))


def _action_space(space: gym.Space) -> Box | Discrete:
    if isinstance(space, gym.spaces.Discrete):
        return Discrete(int(space.n), int(space.start))
    if isinstance(space, gym.spaces.Box):
        return Box(tuple(space.low.ravel()), tuple(space.high.ravel()))
    raise ValueError(
        f"jaxrl acts in Box and Discrete spaces, but the environment wants a "
        f"{type(space).__name__}; wrap it in one that takes either"
    )
