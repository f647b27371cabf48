"""`jaxrl doctor [--out DIR]`."""

import contextlib
import importlib.metadata
import platform
import subprocess
import sys
import tempfile
import time
import typing
from collections.abc import Callable
from pathlib import Path

from jaxrl import __version__
from jaxrl.cli import options
from jaxrl.errors import UserError
from jaxrl.logging.console import printable, terminal
from jaxrl.show import video

if typing.TYPE_CHECKING:
    from rich.console import Console

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "gymnasium", "mujoco")
# In a subprocess, because importing it starts MPI, which may abort the process.
MPI = "from mpi4py import MPI; print(MPI.Get_library_version().split(',')[0])"


STYLES = {"ok": "green", "--": "yellow", "NO": "bold red"}


class Missing(Exception):
    """An optional part that is not installed."""


def main(arguments: list[str]) -> int:
    out = options.parser("doctor").parse(arguments).out
    checks: dict[str, Callable[[], str]] = {
        "versions": versions,
        "devices": devices,
        "mpi": mpi,
        "rendering": rendering,
        "output": lambda: output(out),
        "self-test": self_test,
    }
    console = terminal()
    failed = False
    for name, check in checks.items():
        with console.status(name) if console else contextlib.nullcontext():
            mark, found = _checked(check)
        _print(console, mark, name, printable(found))
        failed |= mark == "NO"
    return int(failed)


def _checked(check: Callable[[], str]) -> tuple[str, str]:
    """The mark of a check and what it found."""
    try:
        return "ok", check()
    except Missing as missing:
        return "--", str(missing)
    except Exception as error:  # one failure must not hide the checks after it
        return "NO", " ".join(str(error).split()) or type(error).__name__


def _print(console: "Console | None", mark: str, name: str, found: str) -> None:
    if console is None:
        print(f"{mark}  {name:10} {found}", flush=True)
        return
    from rich.table import Table
    from rich.text import Text

    row = Table.grid(padding=(0, 2, 0, 0))
    for width in (2, 9, None):
        row.add_column(width=width)
    row.add_row(Text(mark, STYLES[mark]), name, found)
    console.print(row)


def versions() -> str:
    found = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    return ", ".join(
        [f"jaxrl {__version__}", f"Python {platform.python_version()}", *found]
    )


def devices() -> str:
    import jax

    return ", ".join(f"{device.device_kind} {device.id}" for device in jax.devices())


def mpi() -> str:
    words = [sys.executable, "-c", MPI]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Missing("no MPI library; pip install 'jaxrl[mpi]' installs one")
    return done.stdout.strip()


def rendering() -> str:
    try:
        video.choose_opengl()
    except UserError as error:
        raise Missing(str(error)) from None
    return "MuJoCo renders without a display"


def output(out: Path) -> str:
    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=there):
            return f"{out} can be written"
    except OSError as error:
        raise OSError(f"{out} cannot be written: {error.strerror}") from None


def self_test() -> str:
    """Trains PPO on CartPole, where a random policy has a return of about 22."""
    from jaxrl.runs import spec
    from jaxrl.training import train

    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        run = spec.make("ppo", "CartPole-v1", {"steps": 8192, "out": out})
        history = train.train(run, screen=False).history
    returned = history[-1]["AverageEpRet"] or 0.0
    seconds = time.perf_counter() - start
    if returned < 40:
        raise RuntimeError(
            f"ppo reached a return of only {returned:.0f}; 40 or more is expected"
        )
    return f"ppo reached a return of {returned:.0f} in CartPole in {seconds:.0f} s"
