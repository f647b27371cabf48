"""Networks of a user for tests, which NumPy cannot play."""

import flax.linen as nn
import jax.numpy as jnp

from jaxrl.maths.distributions import Categorical, Gaussian
from jaxrl.maths.nets import MLP, Networks, TanhGaussianPolicy, Value
from jaxrl.types import Discrete


class Normed(nn.Module):
    """One hidden layer with layer norm."""

    out: int
    width: int = 8

    @nn.compact
    def __call__(self, x):
        x = nn.LayerNorm()(nn.relu(nn.Dense(self.width)(x)))
        return nn.Dense(self.out)(x)


class Critic(nn.Module):
    @nn.compact
    def __call__(self, *inputs):
        return Normed(1)(jnp.concatenate(inputs, axis=-1))[..., 0]


class OnPolicyActor(nn.Module):
    spec_size: int
    discrete: bool

    @nn.compact
    def __call__(self, obs):
        output = Normed(self.spec_size)(obs)
        if self.discrete:
            return Categorical(output)
        return Gaussian(output, jnp.zeros_like(output) - 1.0)


def small(spec):
    return Networks(TanhGaussianPolicy(Normed(2 * spec.action.size)), Critic())


def wide(spec):
    return Networks(
        TanhGaussianPolicy(Normed(2 * spec.action.size, width=12)), Critic()
    )


def replayable(spec):
    """Which NumPy can play."""
    trunk = MLP((4, 2 * spec.action.size), "tanh")
    return Networks(TanhGaussianPolicy(trunk), Value(MLP((4, 1))))


def on_policy(spec):
    discrete = isinstance(spec.action, Discrete)
    return Networks(OnPolicyActor(spec.action.size, discrete), Critic())


class Maker:
    @staticmethod
    def make(spec):
        return small(spec)


# Wrong ones


def wrong_size(spec):
    return Networks(TanhGaussianPolicy(Normed(7)), Critic())


def wrong_output(spec):
    return Networks(Normed(spec.action.size), Critic())


def classes(spec):
    return Networks(Normed, Critic)


def nothing(spec):
    return None


def failing(spec):
    raise KeyError("my mistake")
