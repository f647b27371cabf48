"""What a run ran on: machine, versions and git commit, for its config.yaml."""

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("jaxrl", "jax", "jaxlib", "flax", "optax", "gymnasium", "mujoco", "numpy")


def machine(devices: Sequence[str] = ()) -> dict[str, Any]:
    """What runs here run on."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "devices": list(devices),
        "python": platform.python_version(),
        "threads": int(os.environ.get("NPROC", os.cpu_count() or 1)),
        "commit": _commit(),
        "versions": _versions(),
    }


def _processor() -> str:
    """Its model name on Linux; elsewhere only the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    return names[0].strip() if names else platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """The commit of the directory the run was started in, if it is in git."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
