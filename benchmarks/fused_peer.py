"""One side of fused.py: rejax, with the Python of its own environment."""

import json
import sys
from collections.abc import Callable
from typing import Any

import fused_turns
import jax
import jax.numpy as jnp
import rejax


def make(kind: str, given: dict[str, Any]) -> tuple[Any, int]:
    """rejax's algorithm with these settings, and the steps of a run."""
    common = {"skip_initial_evaluation": True}
    if kind == "ppo":
        size = given["num_envs"] * given["steps"]
        steps = size * given["epochs"]
        algo = rejax.PPO.create(
            env="CartPole-v1",
            num_envs=given["num_envs"],
            num_steps=given["steps"],
            num_epochs=given["passes"],
            num_minibatches=given["minibatches"],
            max_grad_norm=0.5,
            agent_kwargs={"activation": "tanh"},
            total_timesteps=steps,
            eval_freq=size,
            **common,
        )
        return algo, steps * given["seeds"]
    relu = {"activation": "relu"}
    nets = {"sac": {"agent_kwargs": relu}}
    nets["td3"] = {"actor_kwargs": dict(relu), "critic_kwargs": dict(relu)}
    algo = {"sac": rejax.SAC, "td3": rejax.TD3}[given["algo"]].create(
        env="Pendulum-v1",
        num_envs=1,
        buffer_size=given["replay"],
        fill_buffer=256,
        batch_size=256,
        total_timesteps=given["steps"],
        eval_freq=given["steps"],
        **nets[given["algo"]],
        **common,
    )
    return algo, given["steps"]


def compile() -> tuple[Callable[[int], Any], int]:
    kind, side, text = sys.argv[1:]
    given = json.loads(text)
    algo, steps = make(kind, given)
    algo = algo.replace(eval_callback=lambda algo, ts, rng: jnp.zeros(()))

    def train(key: jax.Array) -> Any:
        state, _ = algo.train(key)
        return state.actor_ts.params, state.critic_ts.params

    seeds = given.get("seeds", 1)
    if seeds == 1:
        run, shape = train, ()
    else:
        several = jax.vmap(train)
        run = several if "vmap" in side else lambda keys: jax.lax.map(train, keys)
        shape = (seeds,)

    def keys(number: int) -> jax.Array:
        key = jax.random.PRNGKey(number)
        return jax.random.split(key, *shape) if shape else key

    compiled = jax.jit(run).lower(keys(0)).compile()
    return lambda number: compiled(keys(number)), steps


fused_turns.serve(compile)
