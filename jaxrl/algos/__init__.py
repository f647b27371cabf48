"""The algorithms, each a module of pure functions in one file.

from jaxrl.algos import sac
state = sac.init(jax.random.key(0), spec)
state, metrics = sac.update(state, batch)
"""

import importlib
import typing

from jaxrl.errors import unknown

if typing.TYPE_CHECKING:
    from jaxrl.types import Algorithm

NAMES = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")


def get(name: str) -> "Algorithm":
    """The algorithm's module by its name."""
    check_name(name)
    return importlib.import_module(f"jaxrl.algos.{name}")


def check_name(name: str) -> None:
    """Raises where there is no algorithm of the name."""
    if name not in NAMES:
        raise ValueError(unknown("algorithm", str(name), NAMES))
