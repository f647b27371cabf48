"""`jaxrl doctor [--out DIR]`."""

import importlib.metadata
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from jaxrl import __version__
from jaxrl.cli import options
from jaxrl.errors import UserError
from jaxrl.show import video

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "gymnasium", "mujoco")
# In a process of its own, because it starts MPI, and may end the process.
MPI = "from mpi4py import MPI; print(MPI.Get_library_version().split(',')[0])"


class Absent(Exception):
    """Something that a user can do without."""


def main(arguments: list[str]) -> int:
    out = options.parser("doctor").parse(arguments).out
    checks: dict[str, Callable[[], str]] = {
        "versions": _versions,
        "devices": _devices,
        "mpi": _mpi,
        "rendering": _rendering,
        "output": lambda: _output(out),
        "self-test": _self_test,
    }
    return 1 if [name for name in checks if not _passes(name, checks[name])] else 0


def _passes(name: str, check: Callable[[], str]) -> bool:
    """Prints what it found; whether a run can do with that."""
    try:
        mark, found = "ok", check()
    except Absent as absent:
        mark, found = "--", str(absent)
    except Exception as error:  # whatever is broken, the next check goes on
        reason = " ".join(str(error).split())
        mark, found = "NO", reason or type(error).__name__
    print(f"{mark}  {name:10} {found}", flush=True)
    return mark != "NO"


def _versions() -> str:
    found = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    return ", ".join(
        [f"jaxrl {__version__}", f"Python {platform.python_version()}", *found]
    )


def _devices() -> str:
    import jax

    return ", ".join(f"{device.device_kind} {device.id}" for device in jax.devices())


def _mpi() -> str:
    words = [sys.executable, "-c", MPI]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Absent("no MPI library; pip install 'jaxrl[mpi]' brings one")
    return done.stdout.strip()


def _rendering() -> str:
    try:
        video.choose_opengl()
    except UserError as error:
        raise Absent(str(error)) from None
    return "MuJoCo draws without a display"


def _output(out: Path) -> str:
    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=there):
            return f"{out} can be written"
    except OSError as error:
        raise OSError(f"{out} cannot be written: {error.strerror}") from None


def _self_test() -> str:
    """Trains until it is better than chance, which is 22 steps upright."""
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
            f"ppo came to a return of {returned:.0f} only, not beyond 40"
        )
    return f"ppo learned CartPole to a return of {returned:.0f} in {seconds:.0f} s"
