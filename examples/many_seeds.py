"""Sixteen experiments in one program: four seeds of PPO times four learning rates.

python examples/many_seeds.py

A JAX environment, the algorithm and its training loop are one function of a key and
the settings, so `vmap` runs it over both.
"""

import jax
import jax.numpy as jnp

from jaxrl.algos import ppo
from jaxrl.envs.jax import PROBES
from jaxrl.training import fused
from jaxrl.types import OnPolicy

DATA = OnPolicy(steps_per_epoch=256, num_envs=8, epochs=40)


def experiment(key: jax.Array, lr: jax.Array) -> jax.Array:
    config = ppo.Config(pi_lr=lr, vf_lr=lr, hidden=(32,), minibatches=4)
    _, history = fused.train(key, ppo, PROBES["both"], config, DATA)
    return history["EpRet"][-10:].mean()


over_seeds = jax.vmap(experiment, in_axes=(0, None))
over_both = jax.jit(jax.vmap(over_seeds, in_axes=(None, 0)))

rates = jnp.array([1e-4, 1e-3, 3e-3, 1e-2])
returns = over_both(jax.random.split(jax.random.key(0), 4), rates)  # [rate, seed]
print("learning rate   mean return of 4 seeds (at most 0)")
for rate, row in zip(rates, returns, strict=True):
    print(f"{rate:13.4f}   {row.mean():8.3f} ± {row.std():.3f}")
