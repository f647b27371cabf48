"""What a run is and leaves behind; `jaxrl.runs(path)` lists runs."""

import sys
import types
import typing

if typing.TYPE_CHECKING:
    from jaxrl.runs.listing import Paths, Runs


class _CallableModule(types.ModuleType):
    """A module that can be called, because a public function has its name."""

    def __call__(self, paths: "Paths" = "runs") -> "Runs":
        from jaxrl.runs.listing import list_runs

        return list_runs(paths)


sys.modules[__name__].__class__ = _CallableModule
