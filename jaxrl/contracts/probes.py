"""Small environments with known solutions, which every algorithm learns in seconds."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.contracts.samples import assert_near, is_on_policy
from jaxrl.envs.jax import PROBES, Probe
from jaxrl.maths import critics, normalize
from jaxrl.training import fused
from jaxrl.types import Algorithm, Discrete, OffPolicy, OnPolicy

GAMMA = 0.9
# By observation: V or Q of the greedy action, and that action.
VALUES: dict[str, dict[int, float]] = {
    "constant": {0: 1},
    "observed": {-1: -1, 1: 1},
    "delayed": {0: GAMMA, 1: 1},
    "chosen": {},
    "both": {},
}
ACTIONS = {"chosen": {0: 0.5}, "both": {-1: -0.5, 1: 0.5}}
CHOICES = {"chosen": {0: 1}, "both": {-1: 0, 1: 1}}


def settings(algo: Algorithm) -> tuple[Any, OnPolicy | OffPolicy]:
    """High learning rates and small networks, because the problems are tiny."""
    names = algo.Config.__dataclass_fields__
    config: dict[str, Any] = {"hidden": (32,), "gamma": GAMMA, "tau": 0.05}
    config |= {"minibatches": 4}
    config |= dict.fromkeys(("pi_lr", "vf_lr", "q_lr", "lr"), 0.003)
    data: OnPolicy | OffPolicy
    if is_on_policy(algo):
        if "minibatches" not in names:  # VPG: one policy step per update
            config |= {"pi_lr": 1e-2}
        data = OnPolicy(steps_per_epoch=256, num_envs=8, epochs=100)
    else:
        data = OffPolicy(
            steps_per_epoch=500,
            epochs=6,
            num_envs=2,
            replay_size=5000,
            batch_size=64,
            start_steps=200,
            update_after=100,
        )
    known = {name: value for name, value in config.items() if name in names}
    return algo.Config(**known), data


def solve(algo: Algorithm, env: Probe) -> tuple[Any, dict[str, jax.Array]]:
    """The state and the history after training."""
    config, data = settings(algo)
    train = jax.jit(lambda key: fused.train(key, algo, env, config, data))
    return train(jax.random.key(0))


def value(algo: Algorithm, state: Any, obs: jax.Array) -> jax.Array:
    """V, or Q of the greedy action."""
    norm_obs = normalize.normalize_obs(state.obs_norm, obs)
    if is_on_policy(algo):
        output = state.networks.critic.apply(state.critic.params, norm_obs)
        return normalize.restore(state.return_norm, output)
    action, module = algo.act(state, obs), state.networks.critic
    return critics.q(state.critic.params, module, norm_obs, action).min(axis=0)


def solves(algo: Algorithm, probe: str) -> None:
    """Finds the values and the actions of a probe."""
    state, history = solve(algo, PROBES[probe])
    for obs, expected in VALUES[probe].items():
        got = _value(algo, state, jnp.full((1, 1), float(obs)))
        if got is not None:
            what = f"the critic's value of observation {obs}"
            assert_near(got, expected, what, 0.1, 1e-7)
    for obs, expected in ACTIONS.get(probe, {}).items():
        action = algo.act(state, jnp.full((1, 1), float(obs)))
        what = f"the greedy action for observation {obs}"
        assert_near(action, expected, what, 0.15, 1e-7)
    length = history["EpLen"][-1]
    assert length == PROBES[probe].length, f"an episode has {length} steps"


def _value(algo: Algorithm, state: Any, obs: jax.Array) -> jax.Array | None:
    """None where a user's algorithm has no such critic."""
    try:
        got = value(algo, state, obs)
    except (AttributeError, TypeError):
        return None
    return got if got.shape == (1,) else None


def solves_discrete(algo: Algorithm, probe: str) -> None:
    """Finds the actions of a probe with two of them."""
    state, history = solve(algo, PROBES[probe]._replace(action=Discrete(2)))
    for obs, expected in CHOICES[probe].items():
        action = algo.act(state, jnp.full((1,), float(obs)))
        assert action == expected, f"the action for observation {obs} is {action}"
    # Of at most 0; guessing gets -0.5.
    assert history["EpRet"][-1] > -0.1, f"the return is {history['EpRet'][-1]}"
