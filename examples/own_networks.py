"""Your own networks: any Linen modules, without touching jaxrl.

python examples/own_networks.py
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

import jaxrl
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


def networks(spec: EnvSpec) -> Networks:
    """The networks for an environment like `spec`."""
    # A TanhGaussian has a mean and a log standard deviation per action dimension.
    trunk = Residual(2 * spec.action.size)
    return Networks(actor=TanhGaussianPolicy(trunk), critic=Critic())


# In your own loop
spec = EnvSpec(obs_size=11, action=Box((-1.0,) * 3, (1.0,) * 3))
state = sac.init(jax.random.key(0), spec, networks=networks(spec))

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

# In a run. This file's function has no name that another process could import, so it
# is given again; `--networks my_module:networks` and a resumed run find one by name.
result = jaxrl.train(
    "sac",
    "Pendulum-v1",
    networks=networks,
    exp_name="own-networks",
    overwrite=True,
    screen=False,
    steps=600,
    steps_per_epoch=300,
    start_steps=200,
    update_after=200,
    num_test_episodes=1,
)
policy, env = jaxrl.load(result.directory, networks=networks)
mean, _ = jaxrl.evaluate_policy(policy, env, num_test_episodes=2)
print(f"return after {len(result.history)} epochs {mean:.1f}")
