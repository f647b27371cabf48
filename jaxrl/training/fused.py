"""Training in a JAX environment: environment, buffer and updates in one program.

    state, history = jax.jit(lambda key: fused.train(key, ppo, env))(key)

runs a whole experiment; `jax.vmap` of it runs one per seed, or per setting. `jaxrl
train` calls `part` instead, which stops between any two rounds: how many rounds a call
makes is an argument of the program, so it changes no bit.
"""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.envs import jax_batch
from jaxrl.envs.jax import JaxEnv
from jaxrl.envs.jax_batch import EnvBatch
from jaxrl.maths import prng, summary
from jaxrl.maths.replay import DeviceReplay
from jaxrl.maths.summary import Summary
from jaxrl.training import returned
from jaxrl.training.learner import all_finite, one_update
from jaxrl.training.program import Program, make_program
from jaxrl.types import (
    Algorithm,
    Metrics,
    OffPolicy,
    OnPolicy,
    Transition,
)

MAX_COUNT = 2**30  # the step counter stops here, so that it cannot overflow

Row = dict[str, Summary]
"""Statistics of an epoch, by name."""


class Statistics(NamedTuple):
    """Those of an epoch so far, in few arrays: a call takes time for each of them."""

    episodes: Summary  # [2]: returns, lengths
    metrics: Summary  # [names in alphabetic order]


class Rollout(NamedTuple):
    """A rollout [T, N] of which the first `filled` steps are taken."""

    rows: Transition
    filled: jax.Array


class Carry(NamedTuple):
    """All that a run is between two rounds; its checkpoint."""

    state: Any
    envs: EnvBatch
    buffer: Any  # Rollout or DeviceReplay
    env_steps: jax.Array
    key: jax.Array
    statistics: Statistics
    finite: jax.Array
    """Whether all observations, rewards and parameters so far are."""
    part: jax.Array
    """Of an update, in units of the denominator of `Program.updates`."""


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
    program = make_program(algo, env, data)
    config = algo.Config() if config is None else config
    if getattr(config, "total_updates", None) == math.inf:
        config = dataclasses.replace(config, total_updates=float(program.data.epochs))
    carry = begin(key, program, config, networks)

    def one_epoch(carry: Carry, _: None) -> tuple[Carry, Row]:
        return epoch(carry, program)

    carry, rows = jax.lax.scan(one_epoch, carry, length=program.data.epochs)
    history = {k: jnp.where(x.n > 0, x.mean, jnp.nan) for k, x in rows.items()}
    return carry.state, history | {"Episodes": rows["EpRet"].n}


def begin(
    key: jax.Array,
    program: Program,
    config: Any,
    networks: Any = None,
    shard: jax.Array | int = 0,
) -> Carry:
    """A run before its first step; all shards have the same state."""
    algo, env, data, *_ = program
    init_key, *own_keys = jax.random.split(key, 3)
    if program.shards > 1:
        own_keys = [jax.random.fold_in(one, shard) for one in own_keys]
    reset_key, run_key = own_keys
    state = returned.state(algo.init(init_key, env.spec, config, networks))
    envs = jax_batch.reset(env, data.num_envs, reset_key)
    buffer = _empty_buffer(program, state, envs)
    zero, true = jnp.zeros((), int), jnp.array(True)
    nothing = Statistics(Summary.empty(2), Summary.empty(0))
    carry = Carry(state, envs, buffer, zero, run_key, nothing, true, zero)
    metrics = Summary.empty(len(metric_shapes(carry, program)))
    return carry._replace(statistics=nothing._replace(metrics=metrics))


def names(metrics: Iterable[str]) -> list[str]:
    """Of the statistics, in their order."""
    return ["EpRet", "EpLen", *sorted(metrics)]


def metric_shapes(carry: Carry, program: Program) -> Metrics:
    """The metrics of one update, by name."""

    def update(carry: Carry) -> Metrics:
        data: Any = program.data
        batch = carry.buffer.rows
        if isinstance(carry.buffer, DeviceReplay):
            batch = carry.buffer.sample(carry.key, data.batch_size)
        return returned.result(program.algo.update(carry.state, batch))[1]

    return jax.eval_shape(update, carry)


def _empty_buffer(
    program: Program, state: Any, envs: EnvBatch
) -> Rollout | DeviceReplay:
    algo, _, data, *_ = program
    action = returned.action(algo, state, envs.obs)
    flag = envs.ep_len > 0
    rows = Transition(envs.obs, action, envs.ep_ret, envs.obs, flag, flag)
    if isinstance(data, OffPolicy):
        one = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), rows)
        return DeviceReplay.empty(one, data.replay_size)
    steps = program.rounds
    empty = jax.tree.map(lambda x: jnp.zeros((steps, *x.shape), x.dtype), rows)
    return Rollout(empty, jnp.zeros((), int))


def epoch(carry: Carry, program: Program) -> tuple[Carry, Row]:
    """A whole epoch and its row."""
    carry, packed = part(carry, program, program.rounds, True)
    return carry, summary.unpack(names(metric_shapes(carry, program)), packed)


def part(
    carry: Carry, program: Program, rounds: jax.Array | int, last: jax.Array | bool
) -> tuple[Carry, jax.Array]:
    """Some `rounds` of an epoch, the `last` ones of which end it.

    Also returns its statistics so far, packed.
    """
    carry = advance(carry, program, rounds)
    if isinstance(carry.buffer, Rollout):
        update = lambda carry: _update_on_policy(carry, program)  # noqa: E731
        carry = jax.lax.cond(last, update, lambda carry: carry, carry)
    carry = carry._replace(finite=carry.finite & all_finite(carry.state))
    so_far = carry.statistics
    nothing = Statistics(*(Summary.empty(len(part.n)) for part in so_far))
    fresh = jax.tree.map(lambda new, old: jnp.where(last, new, old), nothing, so_far)
    return carry._replace(statistics=fresh), summary.pack(so_far)


def advance(carry: Carry, program: Program, rounds: jax.Array | int) -> Carry:
    """`rounds` of an epoch: on-policy steps, off-policy steps and updates."""
    on_policy = isinstance(program.data, OnPolicy)
    one_round = _collect_step if on_policy else _collect_and_update
    return jax.lax.fori_loop(0, rounds, lambda _, c: one_round(c, program), carry)


def _collect_step(carry: Carry, program: Program) -> Carry:
    """One step of every environment, into the rollout."""
    carry, act_key, step_key = _split(carry)
    action = program.algo.act(carry.state, carry.envs.obs, act_key)
    carry, row = _step(carry, program, action, step_key)
    rollout = carry.buffer
    rows = jax.tree.map(lambda x, new: x.at[rollout.filled].set(new), rollout.rows, row)
    return carry._replace(buffer=Rollout(rows, rollout.filled + 1))


def _update_on_policy(carry: Carry, program: Program) -> Carry:
    rows = carry.buffer.rows
    state, metrics = _update(carry.state, rows, program)
    statistics = _with_metrics(carry.statistics, metrics)
    buffer = Rollout(rows, jnp.zeros((), int))
    return carry._replace(state=state, buffer=buffer, statistics=statistics)


def _split(carry: Carry) -> tuple[Carry, jax.Array, jax.Array]:
    """Two keys for a round; the carry has a new one."""
    key, one, other = jax.random.split(prng.unrolled(carry.key), 3)
    return carry._replace(key=prng.like(key, carry.key)), one, other


def _update(state: Any, batch: Transition, program: Program) -> tuple[Any, Metrics]:
    learn = one_update(program.algo)
    after, metrics = learn(prng.unrolled(state), batch, program.pmean)
    return prng.like(after, state), metrics


def _collect_and_update(carry: Carry, program: Program) -> Carry:
    """`update_every` steps into the replay buffer, then `updates_per_step` for each."""
    data: Any = program.data
    steps = data.update_every // data.num_envs
    carry, collect_key, batch_key = _split(carry)

    def step(carry: Carry, key: jax.Array) -> tuple[Carry, Transition]:
        act_key, step_key = jax.random.split(key)
        return _step(carry, program, _explore(carry, program, act_key), step_key)

    keys = jax.random.split(collect_key, steps)
    carry, rollout = jax.lax.scan(step, carry, keys)
    carry = carry._replace(buffer=carry.buffer.insert(rollout))
    ready = carry.env_steps >= data.update_after
    whole, rest = divmod(program.updates.numerator, program.updates.denominator)
    part = carry.part + rest * ready
    one_more = part >= program.updates.denominator
    carry = carry._replace(part=part - one_more * program.updates.denominator)
    return _update_off_policy(carry, program, (whole + one_more) * ready, batch_key)


def _explore(carry: Carry, program: Program, key: jax.Array) -> jax.Array:
    """The policy's actions; the first `start_steps` are random."""
    data: Any = program.data
    act_key, random_key = jax.random.split(key)
    action = program.algo.act(carry.state, carry.envs.obs, act_key)
    random = jax.random.uniform(random_key, action.shape, action.dtype, -1, 1)
    number = carry.env_steps + jnp.arange(len(action)) * program.shards
    return jnp.where((number < data.start_steps)[:, None], random, action)


def _update_off_policy(
    carry: Carry, program: Program, count: jax.Array, key: jax.Array
) -> Carry:
    data: Any = program.data

    def update(i: jax.Array, learned: tuple[Any, Statistics]) -> tuple[Any, Statistics]:
        state, statistics = learned
        batch = carry.buffer.sample(jax.random.fold_in(key, i), data.batch_size)
        state, metrics = _update(state, batch, program)
        return state, _with_metrics(statistics, metrics)

    learned = jax.lax.fori_loop(0, count, update, (carry.state, carry.statistics))
    return carry._replace(state=learned[0], statistics=learned[1])


def _step(
    carry: Carry, program: Program, action: jax.Array, key: jax.Array
) -> tuple[Carry, Transition]:
    """Steps every environment; episodes that end are in the row."""
    obs, before = carry.envs.obs, carry.envs
    envs, after = jax_batch.step(before, program.env, action, program.limit, key)
    returns, lengths = (
        summary.summarize(x, after.done) for x in (after.ep_ret, after.ep_len)
    )
    ended = summary.stack([returns, lengths])
    episodes = summary.merge(carry.statistics.episodes, ended)
    finite = jnp.isfinite(after.reward).all() & jnp.isfinite(after.next_obs).all()
    more = len(obs) * program.shards
    env_steps = jnp.minimum(carry.env_steps + more, MAX_COUNT)
    carry = carry._replace(
        envs=envs,
        env_steps=env_steps,
        statistics=carry.statistics._replace(episodes=episodes),
        finite=carry.finite & finite,
    )
    return carry, Transition(obs, action, *after[:4])


def _with_metrics(statistics: Statistics, metrics: Metrics) -> Statistics:
    if not metrics:  # of a user's algorithm
        return statistics
    more = summary.stack(summary.summarize(metrics[name]) for name in sorted(metrics))
    return statistics._replace(metrics=summary.merge(statistics.metrics, more))
