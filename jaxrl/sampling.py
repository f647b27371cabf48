"""Random values for the settings of `jaxrl.random_search`.

    {"lr": lambda: loguniform(1e-5, 1e-2), "batch_size": lambda: choice([32, 64])}

Inside of a search they draw from the search's seed, elsewhere from a seed of the day.
"""

import contextlib
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from jaxrl.errors import UserError

T = TypeVar("T")
_generator = random.Random()


def uniform(low: float, high: float) -> float:
    """A number between `low` and `high`, all equally likely."""
    _check_range("uniform", low, high)
    return _generator.uniform(low, high)


def loguniform(low: float, high: float) -> float:
    """A number between `low` and `high` whose logarithm is uniform."""
    _check_range("loguniform", low, high)
    if low <= 0:
        raise UserError(f"loguniform needs numbers above 0, got {low!r}")
    drawn = math.exp(_generator.uniform(math.log(low), math.log(high)))
    return min(max(drawn, low), high)  # rounding must not leave the range


def randint(low: int, high: int) -> int:
    """A whole number from `low` to `high`, both included."""
    _check_range("randint", low, high)
    if low != int(low) or high != int(high):
        raise UserError(f"randint needs whole numbers, got {low!r} and {high!r}")
    return _generator.randint(int(low), int(high))


def choice(values: Sequence[T]) -> T:
    """One of the values."""
    if not len(values):
        raise UserError("choice needs at least one value")
    return values[_generator.randrange(len(values))]


def _check_range(name: str, low: Any, high: Any) -> None:
    try:
        right = math.isfinite(low) and math.isfinite(high) and low <= high
    except TypeError:
        right = False
    if not right:
        raise UserError(
            f"{name} needs two numbers, the smaller one first, got {low!r} and {high!r}"
        )


@contextlib.contextmanager
def seeded(seed: str) -> Iterator[None]:
    """Makes all draws repeat, also those of `random` and `numpy.random`.

    What others draw from them later is as if nothing had been drawn here.
    """
    import numpy as np

    global _generator
    own, python, numpy = _generator, random.getstate(), np.random.get_state()
    _generator = random.Random(seed)  # by a hash of the text that never changes
    random.seed(seed + " random")
    np.random.seed(_generator.getrandbits(32))
    try:
        yield
    finally:
        _generator = own
        random.setstate(python)
        np.random.set_state(numpy)
