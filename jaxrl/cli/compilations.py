"""Compiled programs, kept for the next start."""

import contextlib
import functools
import glob
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

DAMAGED = re.compile(
    r"Error reading persistent compilation cache entry for '([\w.<>-]+)'"
)


def keep() -> None:
    """Lets JAX cache compiled programs, and removes damaged ones."""
    import jax

    home = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    folder = Path(home) / "jaxrl" / "xla"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    warnings.showwarning = functools.partial(_show, folder, warnings.showwarning)


def _show(
    folder: Path, usual: Callable[..., None], message: Any, *rest: Any, **more: Any
) -> None:
    """Removes an entry of which JAX warns that it cannot be read.

    JAX compiles the program again, but would not write over the entry, and so warn at
    every start. It names the program and not the file: all that are so named go.
    """
    found = DAMAGED.match(str(message))
    if not found:
        return usual(message, *rest, **more)
    for file in folder.glob(f"{glob.escape(found[1])}-*"):
        with contextlib.suppress(OSError):
            file.unlink()
    return None
