"""Training in a JAX environment: environment, replay and updates in one program.

    state, history = jax.jit(lambda key: fused.train(key, ppo, env))(key)

runs a whole experiment; `jax.vmap` of it runs one per seed, or per setting.
"""

import dataclasses
import fractions
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl import checks
from jaxrl.envs.jax import JaxEnv
from jaxrl.maths.replay import DeviceReplay
from jaxrl.training.share import exact_ratio
from jaxrl.types import Algorithm, Metrics, OffPolicy, OnPolicy, Transition

MAX_COUNT = 2**30  # the step counter stops here, so that it cannot overflow


class EnvBatch(NamedTuple):
    """N environments, with the length and return of their episodes so far; [N, ...]."""

    state: Any
    obs: jax.Array
    ep_len: jax.Array
    ep_ret: jax.Array


def train(
    key: jax.Array,
    algo: Algorithm,
    env: JaxEnv,
    config: Any = None,
    data: OnPolicy | OffPolicy | None = None,
    networks: Any = None,
) -> tuple[Any, Metrics]:
    """Trains for `data.epochs` epochs; returns the state and metrics [epochs].

    Metrics are means over an epoch; EpRet is NaN if no episode ended in it.
    """
    init_key, reset_key, loop_key = jax.random.split(key, 3)
    data = _check_data(algo, algo.DATA if data is None else data)
    config = algo.Config() if config is None else config
    if getattr(config, "total_updates", None) == math.inf:
        config = dataclasses.replace(config, total_updates=float(data.epochs))
    state = algo.init(init_key, env.spec, config, networks)
    envs = reset(env, data.num_envs, reset_key)
    epoch_keys = jax.random.split(loop_key, data.epochs)
    if isinstance(data, OnPolicy):
        return _on_policy(state, envs, algo, env, data, epoch_keys)
    return _off_policy(state, envs, algo, env, data, epoch_keys)


def _check_data(algo: Algorithm, data: Any) -> OnPolicy | OffPolicy:
    """Raises an error for settings that would drop steps or updates."""
    data = checks.config(data, type(algo.DATA))
    divisors = [("steps_per_epoch", "num_envs")]
    if isinstance(data, OffPolicy):
        divisors = [("steps_per_epoch", "update_every"), ("update_every", "num_envs")]
    for name, divisor_name in divisors:
        value, divisor = getattr(data, name), getattr(data, divisor_name)
        if value % divisor:
            raise ValueError(
                f"{name} is {value}, but must be a multiple of {divisor_name}, "
                f"which is {divisor}"
            )
    return data


def reset(env: JaxEnv, num_envs: int, key: jax.Array) -> EnvBatch:
    state, obs = jax.vmap(env.reset)(jax.random.split(key, num_envs))
    return EnvBatch(state, obs, jnp.zeros(num_envs, int), jnp.zeros(num_envs))


def collect(
    envs: EnvBatch,
    policy: Any,
    env: JaxEnv,
    steps: int,
    max_ep_len: int,
    key: jax.Array,
) -> tuple[EnvBatch, Transition, Metrics]:
    """`steps` steps of `policy(obs, key, t)` in every environment.

    Returns the environments, the rollout [T, N] and sums over the episodes that ended.
    """

    def step(envs: EnvBatch, inputs: tuple) -> tuple[EnvBatch, tuple]:
        t, key = inputs
        act_key, step_key, reset_key = jax.random.split(key, 3)
        action = policy(envs.obs, act_key, t)
        num_envs = len(envs.obs)
        after = jax.vmap(env.step)(
            envs.state,
            env.spec.action.scale(action),
            jax.random.split(step_key, num_envs),
        )
        ep_len, ep_ret = envs.ep_len + 1, envs.ep_ret + after.reward
        truncated = (after.truncated | (ep_len >= max_ep_len)) & ~after.terminated
        done = after.terminated | truncated
        transition = Transition(
            envs.obs, action, after.reward, after.obs, after.terminated, truncated
        )
        envs = _where(
            done,
            reset(env, num_envs, reset_key),
            EnvBatch(after.state, after.obs, ep_len, ep_ret),
        )
        ended = {"EpRet": done * ep_ret, "EpLen": done * ep_len, "Episodes": done}
        return envs, (transition, ended)

    inputs = (jnp.arange(steps), jax.random.split(key, steps))
    envs, (rollout, ended) = jax.lax.scan(step, envs, inputs)
    return envs, rollout, jax.tree.map(jnp.sum, ended)


def _where(condition: jax.Array, new: EnvBatch, old: EnvBatch) -> EnvBatch:
    """The environments of `new` where `condition` [N] holds, else of `old`."""

    def choose(new: jax.Array, old: jax.Array) -> jax.Array:
        shape = condition.shape + (1,) * (old.ndim - 1)
        return jnp.where(condition.reshape(shape), new, old)

    return jax.tree.map(choose, new, old)


def _row(metrics: Metrics, updated: jax.Array, ended: Metrics) -> Metrics:
    """One row of the history: means over an epoch's rounds, NaN if none."""
    episodes = jnp.sum(ended["Episodes"])
    row = {name: jnp.sum(ended[name]) / episodes for name in ("EpRet", "EpLen")}
    rounds = jnp.sum(updated)
    means = jax.tree.map(lambda x: jnp.sum(x * updated) / rounds, metrics)
    return row | {"Episodes": episodes} | means


def _on_policy(
    state: Any, envs: EnvBatch, algo: Algorithm, env: JaxEnv, data: OnPolicy, keys: Any
) -> tuple[Any, Metrics]:
    steps = data.steps_per_epoch // data.num_envs

    def epoch(carry: tuple, key: jax.Array) -> tuple[tuple, Metrics]:
        state, envs = carry
        envs, rollout, ended = collect(
            envs,
            lambda obs, key, _: algo.act(state, obs, key),
            env,
            steps,
            data.max_ep_len,
            key,
        )
        state, metrics = algo.update(state, rollout)
        row = _row(jax.tree.map(jnp.mean, metrics), jnp.ones(()), ended)
        return (state, envs), row

    (state, _), history = jax.lax.scan(epoch, (state, envs), keys)
    return state, history


def _off_policy(
    state: Any, envs: EnvBatch, algo: Algorithm, env: JaxEnv, data: OffPolicy, keys: Any
) -> tuple[Any, Metrics]:
    steps = data.update_every // data.num_envs
    rounds = data.steps_per_epoch // data.update_every

    def explore(state: Any, obs: jax.Array, key: jax.Array, step: Any) -> jax.Array:
        act_key, random_key = jax.random.split(key)
        action = algo.act(state, obs, act_key)
        random = jax.random.uniform(random_key, action.shape, action.dtype, -1, 1)
        return jnp.where(step < data.start_steps, random, action)

    schedule = Rounds(data.update_every * exact_ratio(data.updates_per_step))

    def one_round(carry: tuple, key: jax.Array) -> tuple[tuple, tuple]:
        state, envs, replay, env_steps, part = carry
        collect_key, batch_key = jax.random.split(key)
        envs, rollout, ended = collect(
            envs,
            lambda obs, key, t: explore(state, obs, key, env_steps + t * data.num_envs),
            env,
            steps,
            data.max_ep_len,
            collect_key,
        )
        replay = replay.insert(rollout)
        env_steps = jnp.minimum(env_steps + steps * data.num_envs, MAX_COUNT)
        ready = env_steps >= data.update_after
        size, part = schedule.next(part, ready)
        sample = lambda n: replay.sample(batch_key, n, data.batch_size)  # noqa: E731
        state, metrics = _updates(state, algo, sample, schedule.sizes, size)
        return (state, envs, replay, env_steps, part), (metrics, size > 0, ended)

    def epoch(carry: tuple, key: jax.Array) -> tuple[tuple, Metrics]:
        carry, rows = jax.lax.scan(one_round, carry, jax.random.split(key, rounds))
        return carry, _row(*rows)

    replay = DeviceReplay.empty(_one_transition(env, envs), data.replay_size)
    carry: Any = (state, envs, replay, jnp.zeros((), int), jnp.zeros((), int))
    (state, *_), history = jax.lax.scan(epoch, carry, keys)
    return state, history


@dataclasses.dataclass(frozen=True)
class Rounds:
    """How many updates each round has: `mean` on average, counted exactly."""

    mean: fractions.Fraction

    @property
    def sizes(self) -> tuple[int, ...]:
        """What `next` counts in: no updates, `mean` rounded down, rounded up."""
        low = int(self.mean)
        return (0, low) if self.mean == low else (0, low, low + 1)

    def next(self, part: jax.Array, ready: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The place in `sizes` of this round, 0 for no updates, and the new `part`.

        `part` of an update, in units of the denominator, is carried to the next round.
        """
        low, rest = divmod(self.mean.numerator, self.mean.denominator)
        part = part + rest * ready
        full = part >= self.mean.denominator
        place = (1 + full if low else 2 * full) * ready
        return place, part - full * self.mean.denominator


def _updates(
    state: Any,
    algo: Algorithm,
    sample: Callable[[int], Transition],
    sizes: tuple[int, ...],
    place: jax.Array,
) -> tuple[Any, Metrics]:
    """A round of `sizes[place]` updates on batches of `sample`; means of metrics."""

    def run(count: int, state: Any) -> tuple[Any, Metrics]:
        state, metrics = jax.lax.scan(algo.update, state, sample(count))
        return state, jax.tree.map(jnp.mean, metrics)

    _, shapes = jax.eval_shape(functools.partial(run, 1), state)
    no_metrics = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    none = lambda state: (state, no_metrics)  # noqa: E731
    rounds = [functools.partial(run, n) if n else none for n in sizes]
    return jax.lax.switch(place, rounds, state)


def _one_transition(env: JaxEnv, envs: EnvBatch) -> Transition:
    """A transition of the shapes and dtypes that the replay buffer will hold."""
    obs, number = envs.obs[0], envs.ep_ret[0]
    action = jnp.zeros(env.spec.action.size)
    return Transition(obs, action, number, obs, number > 0, number > 0)
