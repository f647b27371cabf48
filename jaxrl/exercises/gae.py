"""Exercise: generalized advantage estimates."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.exercises import functions
from jaxrl.maths import returns
from jaxrl.types import Transition

STEPS, ENVS = 6, 2


def _reference(
    reward: jax.Array,
    value: jax.Array,
    next_value: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    gamma: float,
    lam: float,
) -> jax.Array:
    none = jnp.zeros(())
    batch = Transition(none, none, reward, none, terminated, truncated)
    return returns.gae(batch, value, next_value, gamma, lam)


def _case(
    lam: float,
    terminated: tuple[tuple[int, int], ...] = (),
    truncated: tuple[tuple[int, int], ...] = (),
) -> tuple:
    """Random rewards and values; flags at these steps of these environments."""
    rng = np.random.default_rng(0)
    reward, value, ended = rng.normal(size=(3, STEPS, ENVS)).astype(np.float32)
    flags = np.zeros((2, STEPS, ENVS), bool)
    for kind, steps in enumerate((terminated, truncated)):
        for step, env in steps:
            flags[kind, step, env] = True
    over = flags[0] | flags[1]
    over[-1] = True  # s′ is the next observation, unless another episode follows
    next_value = np.where(over, ended, np.roll(value, -1, axis=0))
    arrays = (reward, value, next_value, *flags)
    return *(jnp.asarray(array) for array in arrays), 0.9, lam


CASES = {
    "λ = 0 and no episode that ends": _case(0.0),
    "λ = 0.8 and no episode that ends": _case(0.8),
    "an episode that terminates": _case(0.8, terminated=((2, 0),)),
    "an episode that is truncated": _case(0.8, truncated=((2, 0),)),
    "episodes that end at different steps": _case(
        0.8, terminated=((1, 0), (4, 1)), truncated=((3, 0), (2, 1))
    ),
}


def _variant(
    given: tuple,
    bootstrap: str = "terminated",
    cut: str = "done",
    discount: str = "both",
    shifted: bool = False,
) -> np.ndarray:
    """GAE with one part replaced."""
    reward, value, next_value, terminated, truncated = map(np.asarray, given[:5])
    gamma, lam = given[5:]
    masks = {"terminated": terminated, "done": terminated | truncated}
    masks["never"] = np.zeros_like(terminated)
    if shifted:
        next_value = np.concatenate([value[1:], next_value[-1:]])
    delta = reward + gamma * np.where(masks[bootstrap], 0, next_value) - value
    decay = {"both": gamma * lam, "gamma": gamma, "lambda": lam}[discount]
    advantage, after = np.zeros_like(delta), np.zeros(delta.shape[1])
    for t in reversed(range(len(delta))):
        after = delta[t] + decay * np.where(masks[cut][t], 0, after)
        advantage[t] = after
    return advantage


MISTAKES = {
    "V(s′) counts after a terminated step; a true end has no value": lambda *args: (
        _variant(args, bootstrap="never")
    ),
    "V(s′) does not count after a truncated step; a time limit is not an end, so "
    "bootstrap from it": lambda *args: _variant(args, bootstrap="done"),
    "Aₜ₊₁ counts after a truncated step, but it belongs to the next episode": (
        lambda *args: _variant(args, cut="terminated")
    ),
    "Aₜ₊₁ counts after the end of an episode, but it belongs to the next": (
        lambda *args: _variant(args, cut="never")
    ),
    "neither V(s′) nor Aₜ₊₁ knows that an episode ended": lambda *args: _variant(
        args, bootstrap="never", cut="never"
    ),
    "the trace decays by γ alone; multiply by λ too": lambda *args: _variant(
        args, discount="gamma"
    ),
    "the trace decays by λ alone; multiply by γ too": lambda *args: _variant(
        args, discount="lambda"
    ),
    "V(sₜ₊₁) is the value of the next row, which after a truncation is the first of "
    "another episode; use next_value": lambda *args: _variant(args, shifted=True),
    "these are λ-returns A + V(s); subtract V(s)": lambda *args: (
        _reference(*args) + args[1]
    ),
    "this is δ only; add γ λ Aₜ₊₁": lambda *args: _reference(*(*args[:-1], 0.0)),
}
TASK = functions.Task(
    name="gae",
    reference=_reference,
    cases=CASES,
    mistakes=MISTAKES,
    shape="one advantage for each step and environment, [T, N]",
)


def fault(path: str) -> str:
    """What is wrong with the file; empty if it is right."""
    return functions.fault(TASK, path)
