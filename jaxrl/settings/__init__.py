"""Settings: typed fields with ranges; the real-valued ones are leaves of a pytree.

A class of settings is written

    @settings.pytree
    class Config:
        gamma: Fraction = 0.99
        '''Discount factor.'''

and becomes a frozen, keyword-only dataclass. Its `float` fields are leaves, so that a
changed learning rate does not recompile and `vmap` runs over learning rates; counts,
names and widths are static. Nothing is checked when an instance is built, because JAX
also builds them from tracers; `settings.values` checks values where they enter.

Importing this room does not import JAX, so that a command's help starts at once.
"""

import dataclasses
import math
import typing
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`; a bound that is not `closed` is left out."""

    low: float = -math.inf
    high: float = math.inf
    closed: tuple[bool, bool] = (True, True)
    auto: bool = False
    """Whether 0 may be written as auto."""
    static: bool = False
    """Whether a real number decides shapes, so that it cannot be traced."""

    def holds(self, value: Any) -> bool:
        """Whether the number is in the range; NaN is in none."""
        above = value >= self.low if self.closed[0] else value > self.low
        below = value <= self.high if self.closed[1] else value < self.high
        return bool(above) and bool(below)

    def __str__(self) -> str:
        left, right = "[" if self.closed[0] else "(", "]" if self.closed[1] else ")"
        return f"in {left}{self.low:g}, {self.high:g}{right}{' or auto' * self.auto}"


Fraction = Annotated[float, Range(0, 1)]
Positive = Annotated[float, Range(0, math.inf, (False, False))]
NonNegative = Annotated[float, Range(0, math.inf, (True, False))]
Real = Annotated[float, Range()]  # also infinite
Limit = Annotated[float, Range(0, math.inf, (False, True))]  # inf disables it
MOST = 10**15  # larger counts are not exact as real numbers
Count = Annotated[int, Range(0, MOST)]
Size = Annotated[int, Range(1, MOST)]
Auto = Annotated[int, Range(0, 4096, auto=True)]
Ensemble = Annotated[int, Range(2, MOST)]
Ratio = Annotated[float, Range(1e-6, 1000, static=True)]
Widths = tuple[Annotated[int, Range(1, 32_768)], ...]
Words = tuple[str, ...]
Activation = Literal["tanh", "relu", "elu", "gelu", "silu"]
Initializer = Literal["orthogonal", "uniform"]
Encoder = Literal["auto", "mlp", "nature_cnn"]


@dataclass_transform(frozen_default=True, kw_only_default=True)
def pytree(cls: type[T]) -> type[T]:
    """Makes `cls` a frozen, keyword-only dataclass whose real fields are leaves."""
    import jax

    cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    hints = typing.get_type_hints(cls, include_extras=True)
    real = [name for name, hint in hints.items() if is_leaf(hint)]
    static = [name for name in hints if name not in real]
    jax.tree_util.register_dataclass(cls, data_fields=real, meta_fields=static)
    return cls


def is_leaf(hint: Any) -> bool:
    """Whether it is a number that may be traced."""
    if typing.get_origin(hint) is Annotated:
        kind, range_ = typing.get_args(hint)
        return kind is float and not range_.static
    return hint is float
