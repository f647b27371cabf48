"""Greedy test episodes in a JAX environment, as one compiled program."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.envs import jax_batch
from jaxrl.maths import summary
from jaxrl.training.fused import Program, Row


def evaluate(state: Any, program: Program, episodes: int, key: jax.Array) -> Row:
    """Returns and lengths of greedy episodes, all played side by side."""
    algo, env, *_ = program
    reset_key, step_key = jax.random.split(key)

    def play(carry: tuple) -> tuple:
        envs, over, t = carry
        action = algo.act(state, envs.obs)
        keys = jax.random.fold_in(step_key, t)
        after, step = jax_batch.step_without_reset(
            envs, env, action, program.limit, keys
        )
        envs = after._replace(
            ep_len=jnp.where(over, envs.ep_len, after.ep_len),
            ep_ret=jnp.where(over, envs.ep_ret, after.ep_ret),
        )
        return envs, over | step.done, t + 1

    envs = jax_batch.reset(env, episodes, reset_key)
    start = (envs, jnp.zeros(episodes, bool), jnp.zeros((), int))
    envs, *_ = jax.lax.while_loop(lambda carry: ~carry[1].all(), play, start)
    played = {"TestEpRet": envs.ep_ret, "TestEpLen": envs.ep_len}
    return {name: summary.summarize(x) for name, x in played.items()}
