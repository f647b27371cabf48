"""The algorithms, each a module of pure functions in one file.

from jaxrl.algos import sac
state = sac.init(jax.random.key(0), spec)
state, metrics = sac.update(state, batch)
"""

import importlib
import os
import types
import typing

from jaxrl.algos import user_files
from jaxrl.algos.user_files import is_file, label
from jaxrl.errors import UserError, unknown

if typing.TYPE_CHECKING:
    from jaxrl.types import Algorithm

__all__ = ["NAMES", "check_name", "get", "is_file", "label", "named"]

NAMES = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")
OR_FILE = "or the path of a .py file with your own"


def get(name: str, digest: str = "") -> "Algorithm":
    """The algorithm's module by its name or path; a file's with this SHA-256."""
    if is_file(name):
        module = user_files.load(user_files.absolute(name), digest)
        user_files.check_names(module, name)
        return typing.cast("Algorithm", module)
    check_name(name)
    return importlib.import_module(f"jaxrl.algos.{name}")


def check_name(name: str) -> None:
    """Raises where there is no algorithm of the name; files are not looked for."""
    if name not in NAMES and not is_file(name):
        raise ValueError(unknown("algorithm", str(name), NAMES))


def named(algo: typing.Any) -> str:
    """What a run records of an algorithm: one of the names, or an absolute path.

    It is given as a name, a path, or a module that was imported.
    """
    if isinstance(algo, types.ModuleType):
        parent, _, name = algo.__name__.rpartition(".")
        own = parent == __name__ and name in NAMES
        return name if own else user_files.from_module(algo)
    if isinstance(algo, os.PathLike):
        algo = os.fspath(algo)
    if not isinstance(algo, str):
        raise UserError(
            f"algo is {algo!r}, but must be one of {', '.join(NAMES)}, {OR_FILE}, or "
            "its module"
        )
    return user_files.absolute(algo) if is_file(algo) else algo
