"""Input validation: specs, batches and settings."""

import typing
from typing import Annotated, Any, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.types import Discrete, EnvSpec, Transition

T = TypeVar("T")


def spec(spec: EnvSpec, algo: str, needs: Literal["any", "bounded"]) -> None:
    """Raises an error for an action space that the algorithm does not support."""
    if not isinstance(spec, EnvSpec):
        raise TypeError(
            f"{algo}.init expects a jaxrl.types.EnvSpec, got a {type(spec).__module__}."
            f"{type(spec).__name__}; make one with jaxrl.envs.spec_of(env)"
        )
    if needs == "any":
        return
    if isinstance(spec.action, Discrete):
        raise ValueError(
            f"{algo} needs a bounded Box action space, but the environment has "
            f"{spec.action.n} discrete actions; use vpg, trpo or ppo"
        )
    if not spec.action.bounded:
        raise ValueError(
            f"{algo} needs bounded actions, but the action space is {spec.action}; "
            "wrap the environment to bound them, or use vpg, trpo or ppo"
        )


def batch(batch: Transition, algo: str, axes: tuple[str, ...]) -> None:
    """Raises an error unless the leading axes are `axes`: ("T", "N") or ("B",)."""
    if not isinstance(batch, Transition):
        raise TypeError(
            f"{algo}.update expects a jaxrl.types.Transition, got "
            f"{type(batch).__name__}"
        )
    shapes = {name: np.shape(x) for name, x in batch._asdict().items()}
    lead, rank = shapes["reward"], len(axes)
    faults = [
        f"{name} has shape {shape}"
        for name, shape in shapes.items()
        if shape[:rank] != lead
        or len(shape) not in _ranks(name, rank)
        or shape[rank:] != shapes[name.removeprefix("next_")][rank:]
    ]
    if faults or len(lead) != rank or 0 in lead:
        faults = faults or [f"reward has shape {lead}"]
        raise ValueError(
            f"{algo}.update expects at least one transition, with leading axes "
            f"[{', '.join(axes)}] of all fields and `obs` and `next_obs` "
            f"[{', '.join((*axes, 'obs_size'))}], but {' and '.join(faults)}"
        )


def _ranks(name: str, lead: int) -> tuple[int, ...]:
    """Allowed ranks of a field: discrete actions are scalars, real ones vectors."""
    if name == "action" and lead == 2:
        return (lead, lead + 1)
    return (lead + 1,) if name in ("obs", "next_obs", "action") else (lead,)


def config(config: T, cls: type[T]) -> T:
    """Checks the ranges of `config` and returns it with its leaves as new arrays.

    The error lists all invalid settings. Traced values (in a `vmap` over settings) are
    not checked.
    """
    if not isinstance(config, cls):
        raise TypeError(
            f"expected a {_name(cls)}, got {config!r}; write {_name(cls)}()"
        )
    hints = typing.get_type_hints(cls, include_extras=True)
    values = {name: _plain(getattr(config, name)) for name in hints}
    faults = [
        f"{name} is {values[name]!r}, but must be {rule}; the default is "
        f"{getattr(cls, name)!r}"
        for name, hint in hints.items()
        if (rule := broken_rule(values[name], hint))
    ]
    if faults:
        raise ValueError(f"{_name(cls)}: " + "; ".join(faults))
    # Copies, because donating the state would delete the caller's arrays.
    return jax.tree.map(lambda leaf: jnp.array(leaf, float), cls(**values))


def broken_rule(value: Any, hint: Any) -> str:
    """The rule of the annotation `hint` that `value` breaks; empty if none."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        kind, rule = arguments
        name = "a whole number" if kind is int else "a number"
        if broken_rule(value, kind):
            return f"{name} {rule}"
        traced = isinstance(value, jax.core.Tracer)
        return "" if traced or rule.holds(value) else f"{name} {rule}"
    if origin is typing.Literal:
        known = isinstance(value, str) and value in arguments
        return "" if known else f"one of {', '.join(map(repr, arguments))}"
    if origin is tuple:
        whole = isinstance(value, tuple)
        bad = not whole or any(broken_rule(item, arguments[0]) for item in value)
        return f"a tuple, each item {_describe(arguments[0])}" if bad else ""
    return "" if _KINDS[hint](value) else _describe(hint)


def _is_real(value: Any) -> bool:
    if isinstance(value, jax.Array | np.ndarray | np.number):
        real = jnp.isdtype(value.dtype, ("integral", "real floating"))
        return bool(real) and value.ndim == 0
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


_KINDS: dict[Any, Any] = {
    float: _is_real,
    int: _is_whole,
    bool: lambda value: isinstance(value, bool),
    str: lambda value: isinstance(value, str),
    dict: lambda value: isinstance(value, dict),
}


def _describe(hint: Any) -> str:
    if typing.get_origin(hint) is Annotated:
        kind, rule = typing.get_args(hint)
        return f"{_describe(kind)} {rule}"
    names = {float: "a number", int: "a whole number", bool: "True or False"}
    names |= {dict: "a mapping, as in '{key: value}'"}
    return names.get(hint, "a string")


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _name(cls: type) -> str:
    """The class as a user writes it: `sac.Config`."""
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__qualname__}"
