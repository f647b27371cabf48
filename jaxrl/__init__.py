"""Reinforcement learning as pure functions in JAX."""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from jaxrl import algos, callbacks
    from jaxrl.api.results import (
        evaluate_policy,
        load,
        load_model,
        plot,
        record_video,
        report,
    )
    from jaxrl.api.training import random_search, resume, search, train
    from jaxrl.callbacks import STOP
    from jaxrl.experiments.grid import Grid
    from jaxrl.runs.listing import list_runs as runs
    from jaxrl.runs.logger import Logger

__version__ = "0.1.0"
__all__ = [
    "STOP",
    "Grid",
    "Logger",
    "__version__",
    "algos",
    "callbacks",
    "evaluate_policy",
    "load",
    "load_model",
    "plot",
    "random_search",
    "record_video",
    "report",
    "resume",
    "runs",
    "search",
    "train",
]
_MODULES = dict.fromkeys(__all__, "jaxrl.api.results") | {
    "train": "jaxrl.api.training",
    "resume": "jaxrl.api.training",
    "search": "jaxrl.api.training",
    "random_search": "jaxrl.api.training",
    "Grid": "jaxrl.experiments.grid",
    "Logger": "jaxrl.runs.logger",
    "STOP": "jaxrl.callbacks",
}


def __getattr__(name: str) -> _typing.Any:
    """Imports a public name when it is first used, so that `import jaxrl` is cheap."""
    if name not in __all__:
        raise AttributeError(f"module 'jaxrl' has no attribute {name!r}")
    if name in ("algos", "callbacks", "runs"):  # modules; the last can be called
        return _importlib.import_module(f"jaxrl.{name}")
    return getattr(_importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
