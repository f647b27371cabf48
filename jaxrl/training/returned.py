"""What `init`, `act` and `update` return, checked: a user may have written them."""

import dataclasses
from typing import Any

import jax

from jaxrl.types import Algorithm, Metrics


def state(value: Any) -> Any:
    """Raises an error unless it has the settings, which a resumed run may change."""
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    if "config" not in {field.name for field in fields}:
        raise ValueError(
            "init must return a dataclass with a field config, as in jaxrl's own "
            f"algorithms, but returns {_kind(value)}"
        )
    return value


def action(algo: Algorithm, state: Any, obs: Any) -> Any:
    """The shape of the actions for observations [N, ...], which must be [N, ...]."""
    value = jax.eval_shape(algo.act, state, obs, jax.random.key(0))
    shape, count = getattr(value, "shape", ()), obs.shape[0]
    if not shape or shape[0] != count:
        raise ValueError(
            f"act must return an array of {count} actions for {count} observations, "
            f"but returns {_kind(value)}"
        )
    return value


def result(value: Any) -> tuple[Any, Metrics]:
    """Raises an error unless it is a state and a dict of metrics by name."""
    metrics = value[1] if isinstance(value, tuple) and len(value) == 2 else None
    named = isinstance(metrics, dict) and all(isinstance(name, str) for name in metrics)
    if not named:
        raise ValueError(
            "update must return a state and a dict of metrics by name, but returns "
            f"{_kind(value)}"
        )
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, tuple):
        return f"({', '.join(type(part).__name__ for part in value)})"
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" if shape is None else f"an array {shape}"
