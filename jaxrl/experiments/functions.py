"""A user's function by its name, so that another process finds it without a pickle.

The name is that in its module, or in the script that holds it.
"""

import ast
import contextlib
import dataclasses
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from jaxrl.errors import UserError

SCRIPT = "__jaxrl_script__"  # what a script is named that is imported for a function
GUARDED = (
    "a script is imported again for each call of its function; put what starts the "
    "grid under if __name__ == '__main__':"
)
RULE = "a function that a grid runs must be defined at the top of a module or a script"
HINT = f"{RULE}; move it to a file, and import it from there"


_importing = False


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """While the module of a function is imported for a call, no grid may be run."""
    global _importing
    _importing = True
    try:
        yield
    finally:
        _importing = False


def refuse_while_importing() -> None:
    """A script without a guard would start its grid again in each of its processes."""
    if _importing:
        raise UserError(GUARDED)


@dataclasses.dataclass(frozen=True)
class FunctionName:
    """Where a new process finds a function."""

    module: str
    """Its dotted name, or the path of a script."""
    name: str

    @classmethod
    def from_function(cls, fn: Callable[..., Any]) -> Self:
        """Of a function that can be found again; refuses others."""
        module, name = _module_and_name(fn)
        if module in ("__main__", SCRIPT):
            place = _main_module(sys.modules[module], name)
            _refuse_guarded(sys.modules[module], fn, name)
        else:
            place = module
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not fn:
            raise UserError(f"{module} has no {name} that is this function; {HINT}")
        return cls(place, name)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Of `module:name` or `script.py:name`."""
        module, _, name = text.rpartition(":")
        if not module or not name:
            raise UserError(
                f"{text!r} names no function; write module:function, and the "
                "directory of the runs as out="
            )
        return cls(module, name)

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"

    def load(self) -> Callable[..., Any]:
        """The function, after its module was imported."""
        found: Any = (
            _import_script(Path(self.module))
            if self.module.endswith(".py")
            else importlib.import_module(self.module)
        )
        for part in self.name.split("."):
            found = getattr(found, part)
        return found


def _module_and_name(fn: Any) -> tuple[str, str]:
    if not callable(fn):
        raise UserError(f"a grid runs a function, not {fn!r}")
    module, name = (getattr(fn, x, "") for x in ("__module__", "__qualname__"))
    if not all(isinstance(x, str) and x for x in (module, name)):
        raise UserError(f"{fn!r} has no name by which it is found; {HINT}")
    if inspect.ismethod(fn) or "<" in name:
        what = "is a lambda" if "<lambda>" in name else "is made inside of another one"
        what = "is a method of an object" if inspect.ismethod(fn) else what
        raise UserError(f"{name} {what}; {HINT}")
    _refuse_lazy(fn, name)
    return module, name


def _refuse_lazy(fn: Any, name: str) -> None:
    """A call of such a function returns at once, and nothing in it has run."""
    lazy = (inspect.iscoroutinefunction, inspect.isgeneratorfunction)
    if any(is_lazy(fn) for is_lazy in (*lazy, inspect.isasyncgenfunction)):
        raise UserError(
            f"{name} is async or a generator, so a call of it runs nothing; give a "
            "plain function that calls it, as with asyncio.run or list"
        )


def _refuse_guarded(main: ModuleType, fn: Any, name: str) -> None:
    """Refuses what a script defines only where it is run, and not where imported."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    file = getattr(main, "__file__", None)
    if not file or not code or not os.path.exists(code.co_filename):
        return
    if not os.path.samefile(code.co_filename, file):
        return
    for part in ast.parse(Path(file).read_bytes()).body:
        guard = isinstance(part, ast.If) and "__name__" in ast.unparse(part.test)
        if guard and part.lineno <= code.co_firstlineno <= (part.end_lineno or 0):
            raise UserError(f"{name} is under if __name__ == '__main__':; {RULE}")


def _main_module(main: ModuleType, name: str) -> str:
    """The script that is being run, or the module of `python -m`."""
    if main.__spec__ is not None and main.__name__ == "__main__":
        return main.__spec__.name
    file = getattr(main, "__file__", None)
    if not file or not os.path.isfile(file) or Path(file).suffix != ".py":
        raise UserError(
            f"{name} is defined in a notebook or at a prompt, where no other process "
            f"finds it; {HINT}"
        )
    return os.path.abspath(file)


def _import_script(file: Path) -> ModuleType:
    """As a module that is not __main__, so that what is under its guard is not run."""
    spec = importlib.util.spec_from_file_location(SCRIPT, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[SCRIPT] = module
    spec.loader.exec_module(module)
    return module
