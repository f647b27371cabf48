"""Networks of a user in a run: by name, by a callable, or as modules.

A run records `module:callable`, by which a resumed run and `jaxrl eval` find it again.
What only a program has, such as modules or a notebook's function, is recorded as
`python:` and a word, and must be given again.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import flax.linen as nn

from jaxrl import user_modules
from jaxrl.maths import nets
from jaxrl.maths.nets import Networks
from jaxrl.types import EnvSpec

FROM_PYTHON = "python:"


def name_of(given: Any) -> str:
    """How config.yaml names them."""
    if isinstance(given, Networks):
        return f"{FROM_PYTHON}{type(given.actor).__name__}"
    if not callable(given) or isinstance(given, nn.Module):
        raise ValueError(
            f"networks is a {type(given).__name__}, but must be a jaxrl.maths.nets."
            "Networks(actor, critic), a callable that returns one for an EnvSpec, or "
            "the name of one, as in 'my_module:my_networks'"
        )
    module, name = getattr(given, "__module__", ""), getattr(given, "__qualname__", "")
    if module and name and module != "__main__" and "<" not in name:
        try:
            if by_name(f"{module}:{name}") is given:
                return f"{module}:{name}"
        except ValueError:
            pass
    word = name.rpartition(".")[2].strip("<>") or type(given).__name__
    return f"{FROM_PYTHON}{word}"


def by_name(name: str) -> Callable[[EnvSpec], Networks]:
    """The callable `module:callable`; imports the module from Python's path."""
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise ValueError(
            f"networks is {name!r}, but must be module:callable, as in "
            "my_module:my_networks"
        )
    try:
        module = user_modules.load(module_name)
    except ImportError as error:
        raise ValueError(
            f"networks is {name!r}, but {module_name!r} cannot be imported: {error}; "
            "name its directory in PYTHONPATH"
        ) from None
    try:
        found: Any = functools.reduce(getattr, path.split("."), module)
    except AttributeError:
        raise ValueError(
            f"networks is {name!r}, but {module_name!r} has no {path}"
        ) from None
    # A stranger's config.yaml may name any function, such as sys:exit.
    standard = module_name.partition(".")[0] in sys.stdlib_module_names
    own = inspect.isfunction(found) or inspect.isclass(found)
    if standard or not own:
        raise ValueError(
            f"networks is {name!r}, but must name a function or a class of your "
            "own module"
        )
    return found


def build(recorded: str, given: Any, spec: EnvSpec) -> Networks | None:
    """The networks of a run; None for jaxrl's own.

    `recorded` is the run's setting, `given` what the user gave with the command.
    """
    _check_given(recorded, given)
    if not recorded:
        return None
    source = by_name(recorded) if given is None else given
    if not isinstance(source, Networks):
        try:
            source = source(spec)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"networks {recorded!r} fails for {spec}: {reason}") from (
                error
            )
    try:
        return nets.check(source)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _check_given(recorded: str, given: Any) -> None:
    """Refuses networks that are missing, or others than the run's."""
    if given is None:
        if recorded.startswith(FROM_PYTHON):
            raise ValueError(
                f"the run has networks that config.yaml cannot name ({recorded}); give "
                "them again from Python: jaxrl.resume(directory, networks=...) or "
                "jaxrl.load(directory, networks=...)"
            )
        return
    name = name_of(given)
    if recorded.startswith(FROM_PYTHON) or name == recorded:
        return
    raise ValueError(
        f"the run has {recorded or 'no'} networks of a user, but networks is {name}; "
        "leave it out, or start a new run with it"
    )
