"""Exercise: the loss of PPO's policy."""

import jax
import jax.numpy as jnp

from jaxrl.exercises import functions


def _reference(
    log_prob: jax.Array,
    old_log_prob: jax.Array,
    advantage: jax.Array,
    clip_ratio: float,
) -> jax.Array:
    ratio = jnp.exp(log_prob - old_log_prob)
    clipped = ratio.clip(1 - clip_ratio, 1 + clip_ratio)
    return -jnp.minimum(ratio * advantage, clipped * advantage).mean()


def _case(ratio: list, advantage: list) -> tuple:
    """Probability ratios and advantages."""
    old = jnp.linspace(-2.0, -1.0, len(ratio))
    return old + jnp.log(jnp.array(ratio)), old, jnp.array(advantage), 0.2


def _batch() -> tuple:
    keys = jax.random.split(jax.random.key(0), 3)
    old, moved, advantage = (jax.random.normal(key, (32,)) for key in keys)
    return old + 0.5 * moved, old, advantage, 0.2


CASES = {
    "a policy that has not changed": _case([1.0, 1.0, 1.0], [1.0, -2.0, 4.0]),
    "ratios inside of the clip range": _case([0.9, 1.1], [1.0, 3.0]),
    "a good action that became twice as likely": _case([2.0], [1.0]),
    "a bad action that became half as likely": _case([0.5], [-1.0]),
    "a bad action that became twice as likely": _case([2.0], [-1.0]),
    "a good action that became half as likely": _case([0.5], [1.0]),
    "a batch of 32": _batch(),
}


def _parts(
    log_prob: jax.Array, old: jax.Array, advantage: jax.Array, clip: float
) -> tuple[jax.Array, jax.Array]:
    """ρ A and clip(ρ) A."""
    ratio = jnp.exp(log_prob - old)
    return ratio * advantage, ratio.clip(1 - clip, 1 + clip) * advantage


MISTAKES = {
    "the sign is reversed: a loss is minimized, so it is minus the gain": (
        lambda *args: -_reference(*args)
    ),
    "take the minimum of ρ A and clip(ρ) A, not their maximum": lambda *args: (
        -jnp.maximum(*_parts(*args)).mean()
    ),
    "clip(ρ) A alone has no gradient where a step back is needed; take the minimum "
    "with ρ A": lambda *args: -_parts(*args)[1].mean(),
    "the ratio is never clipped": lambda *args: -_parts(*args)[0].mean(),
    "the ratio is upside down: π is divided by π_old": lambda new, old, *rest: (
        _reference(old, new, *rest)
    ),
    "ρ is exp(log π − log π_old), not the difference": lambda new, old, a, clip: (
        -jnp.minimum((new - old) * a, (new - old).clip(1 - clip, 1 + clip) * a).mean()
    ),
    "ρ is a ratio of probabilities, not of their logarithms": lambda new, old, a, c: (
        -jnp.minimum(new / old * a, (new / old).clip(1 - c, 1 + c) * a).mean()
    ),
    "the clip range is [1 − ε, 1 + ε], not [−ε, ε]": lambda new, old, a, clip: (
        -jnp.minimum(
            jnp.exp(new - old) * a, jnp.exp(new - old).clip(-clip, clip) * a
        ).mean()
    ),
    "take the mean over the batch, not the sum": lambda *args: (
        _reference(*args) * len(args[0])
    ),
    "the advantage is left out of the minimum; for a negative advantage the minimum "
    "of the ratios is the wrong one": lambda new, old, a, clip: (
        -(jnp.minimum(jnp.exp(new - old), 1 + clip) * a).mean()
    ),
}
TASK = functions.Task(
    name="ppo_loss",
    reference=_reference,
    cases=CASES,
    mistakes=MISTAKES,
    shape="one number, the mean over the batch",
    differentiated=0,
)


def fault(path: str) -> str:
    """What is wrong with the file; empty if it is right."""
    return functions.fault(TASK, path)
