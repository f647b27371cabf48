"""A user's algorithm: a Python file with the six names, known by its path.

A run records the SHA-256 of the file. The module is made from the very bytes that were
hashed, never from a cached .pyc beside the file, and once for each content.
"""

import hashlib
import importlib.abc
import importlib.util
import inspect
import os
import sys
import types
from pathlib import Path
from typing import Any

from jaxrl import files
from jaxrl.errors import UserError

SUFFIX = ".py"
SIX = ("DATA", "Config", "State", "init", "act", "update")
_modules: dict[tuple[str, str], types.ModuleType] = {}  # by path and SHA-256


def is_file(algo: Any) -> bool:
    """Whether an algorithm is named by the path of its file."""
    return isinstance(algo, str) and algo.endswith(SUFFIX)


def label(algo: str) -> str:
    """A short name for people and directories."""
    return Path(algo).stem if is_file(algo) else algo


def absolute(path: str) -> str:
    """From the current directory."""
    return os.path.abspath(os.path.expanduser(path))


def short(digest: str) -> str:
    """The first digits of a SHA-256, for people."""
    return digest[:12]


def digest(path: str) -> str:
    """The SHA-256 of the file."""
    return hashlib.sha256(content(path)).hexdigest()


def content(path: str) -> bytes:
    """The bytes of an algorithm's file."""
    try:
        return files.read_bytes(Path(path))
    except FileNotFoundError:
        raise UserError(
            f"there is no file {path}; jaxrl new {Path(path).name} --from sac writes "
            "an algorithm to change"
        ) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {files.reason(error)}") from None


def from_module(module: types.ModuleType) -> str:
    """The path of a module that the user imported; its runs use that very module."""
    path = getattr(module, "__file__", None)
    if not path or not is_file(path) or not os.path.isfile(path):
        raise UserError(
            f"the module {module.__name__} has no .py file that a run could record; "
            "write it into one"
        )
    path = absolute(path)
    data = content(path)
    if _is_stale(module, data, path):
        raise UserError(
            f"{path} has changed since it was imported; import it again with "
            f"importlib.reload({module.__name__})"
        )
    _modules[path, hashlib.sha256(data).hexdigest()] = module
    return path


def _is_stale(module: types.ModuleType, data: bytes, path: str) -> bool:
    """Whether the file has other functions by now than were imported."""
    try:
        constants = compile(data, path, "exec", dont_inherit=True).co_consts
    except (SyntaxError, ValueError):
        return True
    written = {code.co_name: code for code in constants if inspect.iscode(code)}
    functions = {name: vars(module)[name] for name in CALLS if name in vars(module)}
    loaded = {
        name: getattr(inspect.unwrap(function), "__code__", None)
        for name, function in functions.items()
        if callable(function)
    }
    return any(
        code and code != written.get(name, code) for name, code in loaded.items()
    )


def load(path: str, expected: str = "") -> types.ModuleType:
    """The module; with an `expected` SHA-256, of the file as it was then."""
    if (path, expected) in _modules:
        return _modules[path, expected]
    data = content(path)
    found = hashlib.sha256(data).hexdigest()
    if expected and found != expected:
        raise UserError(f"{path} was changed at this moment; start again")
    if (path, found) not in _modules:
        _modules[path, found] = _imported(path, data, found)
    return _modules[path, found]


class _Loader(importlib.abc.InspectLoader):
    """Makes a module from bytes that were read already."""

    def __init__(self, path: str, data: bytes) -> None:
        self._path, self._data = path, data

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._data)

    def get_code(self, fullname: str) -> types.CodeType:
        return self.source_to_code(self._data, self._path)


def _imported(path: str, data: bytes, found: str) -> types.ModuleType:
    # The last part of the name is how messages call it: my_sac.Config.
    name = f"jaxrl_own_{short(found)}.{label(path)}"
    spec = importlib.util.spec_from_loader(name, _Loader(path, data), origin=path)
    assert spec is not None
    assert spec.loader is not None
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    if (folder := str(Path(path).parent)) not in sys.path:
        sys.path.append(folder)  # for modules beside it; last, to replace no other
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"cannot import {path}{explained(error, path)}") from error
    return module


def explained(error: Exception, path: str) -> str:
    """The line of the file at which it was raised, its kind and its first line."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    at = f", line {line}" if line else ""
    lines = filter(str.strip, str(error).splitlines())
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return f"{at}: {kind}{next(lines, 'no reason given')}"


def check_names(module: Any, path: str) -> None:
    """Refuses a file that has not the six names, or not in the right form."""
    from jaxrl.types import OffPolicy, OnPolicy

    if missing := [name for name in SIX if not hasattr(module, name)]:
        raise UserError(
            f"{path} does not define {', '.join(missing)}; an algorithm's file has "
            f"{', '.join(SIX)}"
        )
    if not isinstance(module.DATA, OnPolicy | OffPolicy):
        raise UserError(
            f"{path}: DATA is {module.DATA!r}, but must be an OnPolicy(...) or an "
            "OffPolicy(...) of jaxrl.types"
        )
    for name, arguments in CALLS.items():
        if fault := _call_fault(getattr(module, name), *arguments):
            raise UserError(f"{path}: {name} {fault}")


# How the library calls the functions: by position, and by name.
CALLS: dict[str, tuple[tuple[str, ...], ...]] = {
    "init": (("key", "spec"), ("config", "networks")),
    "act": (("state", "obs"), ("key",)),
    "update": (("state", "batch"), ("pmean",)),
}


def _call_fault(function: Any, first: tuple[str, ...], rest: tuple[str, ...]) -> str:
    """Why it cannot be called as the library does; empty if it can."""
    wanted = f"({', '.join((*first, *(f'{name}=...' for name in rest)))})"
    if not callable(function):
        return f"is {function!r}, but must be a function {wanted}"
    try:
        signature = inspect.signature(function)
    except ValueError:
        return ""
    try:
        signature.bind(*first)
        signature.bind(*first, **dict.fromkeys(rest))
        signature.bind(*first, *(() if rest == ("pmean",) else rest))
    except TypeError as error:
        return f"has the parameters {signature}, but must take {wanted}: {error}"
    return ""
