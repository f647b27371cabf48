"""Networks of your own: any Linen modules, without touching jaxrl.

python examples/own_networks.py
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxrl.algos import sac
from jaxrl.maths.nets import Networks, TanhGaussianPolicy
from jaxrl.types import Box, EnvSpec, Transition


class Residual(nn.Module):
    """Two residual blocks with layer norm."""

    out: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Dense(128)(x)
        for _ in range(2):
            x = x + nn.Dense(128)(nn.relu(nn.LayerNorm()(x)))
        return nn.Dense(self.out)(x)


class Critic(nn.Module):
    """One value for an observation and an action."""

    @nn.compact
    def __call__(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        return Residual(1)(jnp.concatenate([obs, action], axis=-1))[..., 0]


spec = EnvSpec(obs_size=11, action=Box((-1.0,) * 3, (1.0,) * 3))
# A TanhGaussian has a mean and a log standard deviation per action dimension.
networks = Networks(
    actor=TanhGaussianPolicy(Residual(2 * spec.action.size)), critic=Critic()
)
state = sac.init(jax.random.key(0), spec, networks=networks)

keys = jax.random.split(jax.random.key(1), 4)
batch = Transition(
    obs=jax.random.normal(keys[0], (256, 11)),
    action=jax.random.uniform(keys[1], (256, 3), minval=-1),
    reward=jax.random.normal(keys[2], (256,)),
    next_obs=jax.random.normal(keys[3], (256, 11)),
    terminated=jnp.zeros(256, bool),
    truncated=jnp.zeros(256, bool),
)
update = jax.jit(sac.update, donate_argnums=0)
for step in range(1, 201):
    state, metrics = update(state, batch)
    if step % 50 == 0:
        print(f"update {step:4}   critic loss {metrics['LossQ']:.4f}")
