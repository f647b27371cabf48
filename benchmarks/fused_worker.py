"""One side of fused.py: jaxrl."""

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import fused_turns
import jax
import jax.numpy as jnp

from jaxrl.algos import ppo as PPO
from jaxrl.algos import sac, td3
from jaxrl.envs import jax_adapters, jax_batch
from jaxrl.envs.jax import Step
from jaxrl.parallel.devices import Devices
from jaxrl.training import fused
from jaxrl.training.jax_engine import Engine
from jaxrl.types import OffPolicy, OnPolicy

Call = tuple[Callable[[int], Any], int]

CARTPOLE = {"num_envs": 64, "steps": 64, "passes": 8, "minibatches": 16}


def on_policy(given: dict[str, Any]) -> tuple[PPO.Config, OnPolicy]:
    """As rejax's: nothing is normalised, and advantages are computed once."""
    config = PPO.Config(
        train_pi_iters=given["passes"],
        train_v_iters=given["passes"],
        minibatches=given["minibatches"],
        entropy_coef=0.01,
        lr_decay=0.0,
        refresh_advantages=False,
        normalize_obs=False,
        normalize_returns=False,
    )
    size = given["num_envs"] * given["steps"]
    data = OnPolicy(
        steps_per_epoch=size, num_envs=given["num_envs"], epochs=given["epochs"]
    )
    return config, data


def compiled(run: Callable, keys: Callable[[int], Any]) -> Callable[[int], Any]:
    """With the options that `jaxrl train` gives to the compiler."""
    options = Devices(1, 1, "the run").compiler_options
    program = jax.jit(run).lower(keys(0)).compile(compiler_options=options)
    return lambda number: program(keys(number))


def ppo(side: str, given: dict[str, Any]) -> Call:
    """Whole runs, of one seed or several."""
    env = jax_adapters.make("gymnax/CartPole-v1")
    config, data = on_policy(given)
    seeds = given["seeds"]

    def train(key: jax.Array) -> Any:
        return fused.train(key, PPO, env, config, data)[1]

    several = jax.vmap(train) if "vmap" in side else lambda k: jax.lax.map(train, k)
    run = train if seeds == 1 else several

    def keys(number: int) -> jax.Array:
        key = jax.random.key(number)
        return key if seeds == 1 else jax.random.split(key, seeds)

    return compiled(run, keys), data.steps_per_epoch * data.epochs * seeds


def off_policy(side: str, given: dict[str, Any]) -> Call:
    """A whole run with one update a step."""
    env = jax_adapters.make("gymnax/Pendulum-v1")
    algo: Any = {"sac": sac, "td3": td3}[given["algo"]]
    data = OffPolicy(
        steps_per_epoch=given["steps"],
        epochs=1,
        replay_size=given["replay"],
        batch_size=256,
        start_steps=256,
        update_after=256,
        update_every=1,
    )
    config = algo.Config(hidden=(64, 64))

    def train(key: jax.Array) -> Any:
        state, history = fused.train(key, algo, env, config, data)
        return state.actor.params, state.critic.params, history

    return compiled(train, jax.random.key), given["steps"]


class Endless(NamedTuple):
    """An environment whose episodes never terminate."""

    env: Any

    @property
    def spec(self) -> Any:
        return self.env.spec

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        return self.env.reset(key)

    def step(self, state: Any, action: jax.Array, key: jax.Array) -> Step:
        after = self.env.step(state, action, key)
        return after._replace(terminated=jnp.array(False))


def resets(side: str, given: dict[str, Any]) -> Call:
    """Random steps; with a limit of 200, 0.5 % of the episodes end in each."""
    env = Endless(jax_adapters.make("brax/hopper", given))
    count, steps, limit = 64, 200, 200
    step = jax_batch.step if side == "resets" else jax_batch.step_without_reset

    def one(envs: jax_batch.EnvBatch, key: jax.Array) -> tuple[Any, jax.Array]:
        act_key, step_key = jax.random.split(key)
        action = jax.random.uniform(act_key, (count, env.spec.action.size), float, -1)
        envs, after = step(envs, env, action, limit, step_key)
        return envs, after.reward.sum()

    def run(key: jax.Array) -> Any:
        envs = jax_batch.reset(env, count, key)
        envs = envs._replace(ep_len=jnp.arange(count) * limit // count)
        return jax.lax.scan(one, envs, jax.random.split(key, steps))

    return compiled(run, jax.random.key), count * steps


def epochs(side: str, given: dict[str, Any]) -> Call:
    """A run by one call an epoch, as `jaxrl train` makes it, or by one scan."""
    if given["algo"] == "ppo":
        program, config = cartpole("gymnax/CartPole-v1", CARTPOLE | given)
    else:
        program, config = pendulum(given["epochs"])
    steps = program.data.steps_per_epoch * given["epochs"]

    def train(key: jax.Array) -> Any:
        return fused.train(key, program.algo, program.env, config, program.data)[1]

    if side == "one scan":
        return compiled(train, jax.random.key), steps
    engine = Engine(program, None, config)
    engine.compile()
    engine.ready(600)

    def run(number: int) -> Any:
        engine.start(0, engine.begin(jax.random.key(number), config))
        for _ in range(given["epochs"]):
            left = program.rounds
            while left:
                left -= engine.advance([0], left).rounds
        return jnp.zeros(())

    return run, steps


def pendulum(epochs: int) -> tuple[fused.Program, sac.Config]:
    """SAC with the sizes of the preset `jax`."""
    data = OffPolicy(
        steps_per_epoch=4096,
        epochs=epochs,
        num_envs=64,
        update_every=64,
        updates_per_step=0.25,
        batch_size=128,
        start_steps=1024,
        update_after=1024,
    )
    env = jax_adapters.make("gymnax/Pendulum-v1")
    return fused.make_program(sac, env, data), sac.Config()


def cartpole(env: str, given: dict[str, Any]) -> tuple[fused.Program, PPO.Config]:
    config, data = on_policy(given)
    return fused.make_program(PPO, jax_adapters.make(env), data), config


def compiling(side: str, given: dict[str, Any]) -> Call:
    """An epoch of PPO."""
    program, config = cartpole(given["env"], CARTPOLE | {"epochs": 1})
    shapes = jax.eval_shape(
        lambda key: fused.begin(key, program, config), jax.random.key(0)
    )
    part = jax.jit(lambda *given: fused.part(given[0], program, *given[1:]))
    part.lower(shapes, 1, False).compile()
    return lambda number: jnp.zeros(()), program.data.steps_per_epoch


KINDS = {f.__name__: f for f in (ppo, off_policy, resets, epochs, compiling)}

kind, side, text = sys.argv[1:]
fused_turns.serve(lambda: KINDS[kind](side, json.loads(text)))
