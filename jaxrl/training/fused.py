"""Training in a pure environment: environment, replay and updates in one program.

    state, history = jax.jit(lambda key: fused.train(key, ppo, env))(key)

runs a whole experiment; `jax.vmap` of it runs one for every seed, or every setting.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl import checks
from jaxrl.envs.pure import PureEnv
from jaxrl.maths.replay import Ring
from jaxrl.types import Algorithm, Metrics, OffPolicy, OnPolicy, Transition

ENOUGH = 2**30  # steps after which nobody counts any more, so that none overflow


class World(NamedTuple):
    """Environments side by side, each in the middle of an episode; all [N, ...]."""

    state: Any
    obs: jax.Array
    length: jax.Array
    returned: jax.Array


def train(
    key: jax.Array,
    algo: Algorithm,
    env: PureEnv,
    config: Any = None,
    data: OnPolicy | OffPolicy | None = None,
    networks: Any = None,
) -> tuple[Any, Metrics]:
    """`data.epochs` epochs; the final state, and metrics [epochs] averaged over each.

    EpRet is NaN in an epoch that finished no episode.
    """
    init_key, world_key, loop_key = jax.random.split(key, 3)
    data = _checked(algo, algo.DATA if data is None else data)
    config = algo.Config() if config is None else config
    if getattr(config, "total_updates", None) == math.inf:
        config = dataclasses.replace(config, total_updates=float(data.epochs))
    state = algo.init(init_key, env.spec, config, networks)
    world = start(env, data.num_envs, world_key)
    epoch_keys = jax.random.split(loop_key, data.epochs)
    if isinstance(data, OnPolicy):
        return _on_policy(state, world, algo, env, data, epoch_keys)
    return _off_policy(state, world, algo, env, data, epoch_keys)


def _checked(algo: Algorithm, data: Any) -> OnPolicy | OffPolicy:
    """Refuses settings that would leave steps or updates out."""
    data = checks.config(data, type(algo.DATA))
    parts = [("steps_per_epoch", "num_envs")]
    if isinstance(data, OffPolicy):
        parts = [("steps_per_epoch", "update_every"), ("update_every", "num_envs")]
    for whole, part in parts:
        size, count = getattr(data, whole), getattr(data, part)
        if size % count:
            raise ValueError(
                f"{whole} is {size}, but must be a multiple of {part}, which is {count}"
            )
    return data


def start(env: PureEnv, num_envs: int, key: jax.Array) -> World:
    state, obs = jax.vmap(env.reset)(jax.random.split(key, num_envs))
    return World(state, obs, jnp.zeros(num_envs, int), jnp.zeros(num_envs))


def collect(
    world: World, policy: Any, env: PureEnv, steps: int, max_ep_len: int, key: jax.Array
) -> tuple[World, Transition, Metrics]:
    """`steps` steps of `policy(obs, key, t)` in every environment."""

    def step(world: World, inputs: tuple) -> tuple[World, tuple[Transition, Metrics]]:
        t, key = inputs
        act_key, step_key, reset_key = jax.random.split(key, 3)
        action = policy(world.obs, act_key, t)
        count = len(world.obs)
        after = jax.vmap(env.step)(
            world.state,
            env.spec.action.scale(action),
            jax.random.split(step_key, count),
        )
        length, returned = world.length + 1, world.returned + after.reward
        truncated = (after.truncated | (length >= max_ep_len)) & ~after.terminated
        done = after.terminated | truncated
        transition = Transition(
            world.obs, action, after.reward, after.obs, after.terminated, truncated
        )
        fresh = start(env, count, reset_key)
        ongoing = World(after.state, after.obs, length, returned)
        world = jax.tree.map(
            lambda new, old: jnp.where(
                done.reshape(done.shape + (1,) * (old.ndim - 1)), new, old
            ),
            fresh,
            ongoing,
        )
        finished = {"EpRet": done * returned, "EpLen": done * length, "Episodes": done}
        return world, (transition, finished)

    inputs = (jnp.arange(steps), jax.random.split(key, steps))
    world, (rollout, finished) = jax.lax.scan(step, world, inputs)
    return world, rollout, jax.tree.map(jnp.sum, finished)


def _row(metrics: Metrics, updated: jax.Array, finished: Metrics) -> Metrics:
    """One row of the history from an epoch's rounds; the mean of nothing is NaN."""
    episodes = jnp.sum(finished["Episodes"])
    lived = {name: jnp.sum(finished[name]) / episodes for name in ("EpRet", "EpLen")}
    rounds = jnp.sum(updated)
    learned = jax.tree.map(lambda x: jnp.sum(x * updated) / rounds, metrics)
    return lived | {"Episodes": episodes} | learned


def _on_policy(
    state: Any, world: World, algo: Algorithm, env: PureEnv, data: OnPolicy, keys: Any
) -> tuple[Any, Metrics]:
    steps = data.steps_per_epoch // data.num_envs

    def epoch(carry: tuple, key: jax.Array) -> tuple[tuple, Metrics]:
        state, world = carry
        world, rollout, finished = collect(
            world,
            lambda obs, key, _: algo.act(state, obs, key),
            env,
            steps,
            data.max_ep_len,
            key,
        )
        state, metrics = algo.update(state, rollout)
        row = _row(jax.tree.map(jnp.mean, metrics), jnp.ones(()), finished)
        return (state, world), row

    (state, _), history = jax.lax.scan(epoch, (state, world), keys)
    return state, history


def _off_policy(
    state: Any, world: World, algo: Algorithm, env: PureEnv, data: OffPolicy, keys: Any
) -> tuple[Any, Metrics]:
    steps = data.update_every // data.num_envs
    rounds = data.steps_per_epoch // data.update_every

    def explore(state: Any, obs: jax.Array, key: jax.Array, taken: Any) -> jax.Array:
        act_key, random_key = jax.random.split(key)
        action = algo.act(state, obs, act_key)
        random = jax.random.uniform(random_key, action.shape, action.dtype, -1, 1)
        return jnp.where(taken < data.start_steps, random, action)

    def learn(state: Any, ring: Ring, key: jax.Array) -> tuple[Any, Metrics]:
        batches = ring.sample(key, data.update_every, data.batch_size)
        state, metrics = jax.lax.scan(algo.update, state, batches)
        return state, jax.tree.map(jnp.mean, metrics)

    def one_round(carry: tuple, key: jax.Array) -> tuple[tuple, tuple]:
        state, world, ring, taken = carry
        collect_key, batch_key = jax.random.split(key)
        world, rollout, finished = collect(
            world,
            lambda obs, key, t: explore(state, obs, key, taken + t * data.num_envs),
            env,
            steps,
            data.max_ep_len,
            collect_key,
        )
        ring = ring.insert(rollout)
        taken = jnp.minimum(taken + steps * data.num_envs, ENOUGH)
        ready = taken >= data.update_after
        _, shapes = jax.eval_shape(learn, state, ring, batch_key)
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        state, metrics = jax.lax.cond(
            ready,
            lambda state: learn(state, ring, batch_key),
            lambda state: (state, nothing),
            state,
        )
        return (state, world, ring, taken), (metrics, ready, finished)

    def epoch(carry: tuple, key: jax.Array) -> tuple[tuple, Metrics]:
        round_keys = jax.random.split(key, rounds)
        carry, rows = jax.lax.scan(one_round, carry, round_keys)
        return carry, _row(*rows)

    ring = Ring.empty(_one_transition(env, world), data.replay_size)
    carry: Any = (state, world, ring, jnp.zeros((), int))
    (state, *_), history = jax.lax.scan(epoch, carry, keys)
    return state, history


def _one_transition(env: PureEnv, world: World) -> Transition:
    obs, number = world.obs[0], world.returned[0]
    action = jnp.zeros(env.spec.action.size)
    return Transition(obs, action, number, obs, number > 0, number > 0)
