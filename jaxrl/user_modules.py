"""Importing a module that a setting names, as in `module:callable`.

The setting may be in a stranger's run. Python's own modules are never imported for it:
some act when they are imported, as `antigravity`, which opens a browser.
"""

import importlib
import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import ModuleType, TracebackType


def load(name: str) -> ModuleType:
    """The module; raises an ImportError for what may not or cannot be imported."""
    if not name or name.startswith("."):  # a path, or a relative import
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    if _is_standard(name.partition(".")[0]):
        reason = f"{name!r} is one of Python's own modules, which are not called"
        raise ImportError(reason, name=name)
    return importlib.import_module(name)


def _is_standard(top: str) -> bool:
    """Whether it is Python's, and not a user's module of the same name."""
    if top in sys.builtin_module_names:
        return True
    try:
        found = importlib.util.find_spec(top)
    except (ValueError, ImportError):  # of `__main__`, or no name of a module
        return False
    if found is None or not found.origin:
        return False
    return found.origin in ("frozen", "built-in") or _is_pythons(Path(found.origin))


def is_installed(file: Path) -> bool:
    """Whether a file came with Python, with jaxrl or by a package manager."""
    path = file.resolve()
    packages = {"site-packages", "dist-packages"} & {*path.parts}
    own = path.is_relative_to(Path(__file__).resolve().parent)
    return bool(packages) or own or _is_pythons(path)


def _is_pythons(file: Path) -> bool:
    path = file.resolve()
    places = {Path(sysconfig.get_path(x)).resolve() for x in ("stdlib", "platstdlib")}
    packages = {"site-packages", "dist-packages"} & {*path.parts}
    return not packages and any(map(path.is_relative_to, places))


def only_installed(trace: TracebackType | None) -> bool:
    """Whether an error came up in installed code alone, and not in a user's."""
    while trace:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<") and not is_installed(Path(file)):
            return False
        trace = trace.tb_next
    return True
