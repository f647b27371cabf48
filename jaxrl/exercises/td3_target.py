"""Exercise: the target of TD3's critics."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxrl.exercises import functions

ROWS, SIZE = 8, 2


def _reference(
    reward: jax.Array,
    terminated: jax.Array,
    next_action: jax.Array,
    draws: jax.Array,
    q1: Callable,
    q2: Callable,
    gamma: float,
    target_noise: float,
    noise_clip: float,
) -> jax.Array:
    smooth = (target_noise * draws).clip(-noise_clip, noise_clip)
    action = (next_action + smooth).clip(-1, 1)
    value = jnp.minimum(q1(action), q2(action))
    return reward + gamma * jnp.where(terminated, 0, value)


def _q1(action: jax.Array) -> jax.Array:
    """High for small first actions, so that each critic is lower in some rows."""
    return 2.0 - 3.0 * action[:, 0] + action[:, 1] ** 2


def _q2(action: jax.Array) -> jax.Array:
    return 2.0 + 3.0 * action[:, 0] - action[:, 1] ** 2


def _case(
    noise: float = 0.0, clip: float = 0.5, spread: float = 0.5, ended: bool = False
) -> tuple:
    """Random rewards and actions; `noise` on the actions, which are up to `spread`."""
    reward_key, action_key, noise_key = jax.random.split(jax.random.key(0), 3)
    action = jax.random.uniform(action_key, (ROWS, SIZE), minval=-spread, maxval=spread)
    return (
        jax.random.normal(reward_key, (ROWS,)),
        (jnp.arange(ROWS) % 3 == 0) & ended,
        action,
        2 * jax.random.normal(noise_key, (ROWS, SIZE)),
        *(_q1, _q2),
        *(0.9, noise, clip),
    )


CASES = {
    "σ = 0 and no row that terminates": _case(),
    "rows that terminate": _case(ended=True),
    "noise that stays below the clip": _case(noise=0.1, clip=9.0),
    "noise that is clipped": _case(noise=0.5, clip=0.1),
    "actions near ±1 with noise": _case(noise=0.5, clip=0.5, spread=1.0),
    "a batch of 8": _case(noise=0.4, clip=0.5, spread=1.0, ended=True),
}


def _variant(
    *args: Any, combine: Any = jnp.minimum, noise: Any = None, clipped: bool = True
) -> jax.Array:
    """The target with one part replaced; `noise` is a function of σ ε, ε, σ and c."""
    reward, terminated, action, draws, q1, q2, gamma, sigma, c = args
    smooth = (sigma * draws).clip(-c, c)
    smooth = smooth if noise is None else noise(sigma * draws, draws, sigma, c)
    action = (action + smooth).clip(-1, 1) if clipped else action + smooth
    return reward + gamma * jnp.where(terminated, 0, combine(q1(action), q2(action)))


def _never_terminated(*args: Any) -> jax.Array:
    return _reference(args[0], jnp.zeros_like(args[1]), *args[2:])


MISTAKES = {
    "the value of s′ counts after a true end; leave it out where terminated": (
        _never_terminated
    ),
    "terminated is the wrong way round: 1 − d keeps the rows that go on": (
        lambda reward, terminated, *rest: _reference(reward, ~terminated, *rest)
    ),
    "take the minimum of the two critics, not the maximum": lambda *args: _variant(
        *args, combine=jnp.maximum
    ),
    "take the minimum of the two critics, not their mean": lambda *args: _variant(
        *args, combine=lambda one, other: (one + other) / 2
    ),
    "only the first critic is used; take the minimum of both": lambda *args: _variant(
        *args, combine=lambda one, other: one
    ),
    "only the second critic is used; take the minimum of both": lambda *args: _variant(
        *args, combine=lambda one, other: other
    ),
    "there is no noise on the action": lambda *args: _variant(
        *args, noise=lambda scaled, *_: 0 * scaled
    ),
    "the noise is not clipped to [−c, c]": lambda *args: _variant(
        *args, noise=lambda scaled, *_: scaled
    ),
    "the noise is not multiplied by σ": lambda *args: _variant(
        *args, noise=lambda _, draws, sigma, c: draws.clip(-c, c)
    ),
    "multiply ε by σ before clipping, not after": lambda *args: _variant(
        *args, noise=lambda _, draws, sigma, c: sigma * draws.clip(-c, c)
    ),
    "the action with its noise is not clipped to [−1, 1]": lambda *args: _variant(
        *args, clipped=False
    ),
    "the value of s′ is not multiplied by γ": lambda *args: _reference(
        *(*args[:6], 1.0, *args[7:])
    ),
}
TASK = functions.Task(
    name="td3_target",
    reference=_reference,
    cases=CASES,
    mistakes=MISTAKES,
    shape="one target for each row, [B]",
)


def fault(path: str) -> str:
    """What is wrong with the file; empty if it is right."""
    return functions.fault(TASK, path)
