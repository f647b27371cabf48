"""N JAX environments side by side, each reset as soon as its episode ends."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.envs.jax import JaxEnv, Step

RESETS_AT_ONCE = 16  # a sixteenth of the environments is reset at once


class EnvBatch(NamedTuple):
    """N environments, with the length and return of their episodes so far; [N, ...]."""

    state: Any
    obs: jax.Array
    ep_len: jax.Array
    ep_ret: jax.Array


class BatchStep(NamedTuple):
    """The results of a step [N]; `next_obs` and the episode are from before a reset."""

    reward: jax.Array
    next_obs: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    ep_len: jax.Array
    ep_ret: jax.Array

    @property
    def done(self) -> jax.Array:
        """Whether the episode ended, truly or by a limit."""
        return self.terminated | self.truncated


def time_limit(env: JaxEnv, max_ep_len: int) -> int:
    """Steps after which an episode is truncated: the environment's limit or ours."""
    return min(max_ep_len, getattr(env, "time_limit", None) or max_ep_len)


def reset(env: JaxEnv, count: int, key: jax.Array) -> EnvBatch:
    """`count` environments at the start of an episode."""
    state, obs = jax.vmap(env.reset)(jax.random.split(key, count))
    return EnvBatch(state, obs, jnp.zeros(count, int), jnp.zeros(count))


def step(
    envs: EnvBatch, env: JaxEnv, action: jax.Array, limit: int, key: jax.Array
) -> tuple[EnvBatch, BatchStep]:
    """One step of every environment; those whose episode ends start another."""
    step_key, reset_key = jax.random.split(key)
    after, stepped = step_without_reset(envs, env, action, limit, step_key)
    return reset_where(stepped.done, after, env, reset_key), stepped


def step_without_reset(
    envs: EnvBatch, env: JaxEnv, action: jax.Array, limit: int, key: jax.Array
) -> tuple[EnvBatch, BatchStep]:
    """Steps every environment; those that ended keep their last observation."""
    count = len(envs.obs)
    keys = jax.random.split(key, count)
    after: Step = jax.vmap(env.step)(envs.state, env.spec.action.scale(action), keys)
    ep_len, ep_ret = envs.ep_len + 1, envs.ep_ret + after.reward
    truncated = (after.truncated | (ep_len >= limit)) & ~after.terminated
    stepped = BatchStep(
        after.reward, after.obs, after.terminated, truncated, ep_len, ep_ret
    )
    return EnvBatch(after.state, after.obs, ep_len, ep_ret), stepped


def reset_where(
    done: jax.Array, envs: EnvBatch, env: JaxEnv, key: jax.Array
) -> EnvBatch:
    """New episodes for the environments that are `done`, a few of them at a time.

    So the cost is in proportion to the episodes that end, and every start is drawn.
    """
    count = len(done)
    few = -(-count // RESETS_AT_ONCE)

    def reset_few(carry: tuple) -> tuple:
        envs, done, key = carry
        key, reset_key = jax.random.split(key)
        (index,) = jnp.nonzero(done, size=few, fill_value=count)  # which is dropped
        fresh = reset(env, few, reset_key)
        envs = jax.tree.map(
            lambda old, new: old.at[index].set(new.astype(old.dtype), mode="drop"),
            envs,
            fresh,
        )
        return envs, done.at[index].set(False, mode="drop"), key

    return jax.lax.while_loop(
        lambda carry: carry[1].any(), reset_few, (envs, done, key)
    )[0]
