"""The algorithms, each a module of pure functions in one file.

from jaxrl.algos import sac
state = sac.init(jax.random.key(0), spec)
state, metrics = sac.update(state, batch)
"""

import importlib

from jaxrl.types import Algorithm

NAMES = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")


def get(name: str) -> Algorithm:
    """The algorithm's module by its name."""
    if name not in NAMES:
        raise ValueError(f"there is no algorithm {name!r}; choose {', '.join(NAMES)}")
    return importlib.import_module(f"jaxrl.algos.{name}")
