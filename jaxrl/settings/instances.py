"""Instances of settings, checked where they enter an algorithm."""

import typing
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.settings.values import broken_rule, described, plain

T = TypeVar("T")


def checked(config: T, cls: type[T]) -> T:
    """`config` with its ranges checked and its leaves as new arrays.

    All mistakes are reported at once. Values under a trace (a `vmap` over settings)
    have no value yet and pass.
    """
    if not isinstance(config, cls):
        raise TypeError(
            f"expected a {_name(cls)}, got {config!r}; write {_name(cls)}()"
        )
    hints = typing.get_type_hints(cls, include_extras=True)
    values = {name: _untraced(getattr(config, name)) for name in hints}
    faults = [
        f"{name} is {getattr(config, name)!r}, but must be {rule}; the default is "
        f"{getattr(cls, name)!r}"
        for name, hint in hints.items()
        if (rule := _broken_rule(values[name], hint))
    ]
    if faults:
        raise ValueError(f"{_name(cls)}: " + "; ".join(faults))
    # Copies: a donated state must not take the caller's arrays with it.
    return jax.tree.map(lambda leaf: jnp.array(leaf, float), cls(**values))


def _untraced(value: Any) -> Any:
    """Plain where that loses nothing; a list is taken for a tuple."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, np.integer):
        return int(value)
    return value


def _broken_rule(value: Any, hint: Any) -> str:
    if isinstance(value, jax.Array | np.ndarray | np.number):
        if float not in (hint, *typing.get_args(hint)) or not _is_real(value):
            return described(hint)
        if isinstance(value, jax.core.Tracer):
            return ""
        value = plain(value)
    return broken_rule(value, hint)


def _is_real(value: Any) -> bool:
    real = jnp.isdtype(value.dtype, ("integral", "real floating"))
    return bool(real) and value.ndim == 0


def _name(cls: type) -> str:
    """How a user writes the class: `sac.Config`."""
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__qualname__}"
