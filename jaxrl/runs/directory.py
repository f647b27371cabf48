"""The directory of a run: config.yaml, models, and never over another run."""

import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from jaxrl.policy import Policy
from jaxrl.runs.spec import Refused, Run
from jaxrl.types import EnvSpec

PACKAGES = ("jaxrl", "jax", "jaxlib", "flax", "optax", "gymnasium", "mujoco", "numpy")


def path_of(run: Run) -> Path:
    return Path(run.out) / run.exp_name / f"{run.exp_name}_s{run.seed}"


def create(run: Run) -> Path:
    """The run's own, new directory, with its config.yaml."""
    path = path_of(run)
    if path.exists() and run.overwrite:
        shutil.rmtree(path)
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        raise Refused(
            f"{path} holds a run already; remove it with --overwrite, or choose "
            "another --exp_name or --seed"
        ) from None
    except OSError as error:
        raise Refused(
            f"cannot write to {path}: {error.strerror}; choose another --out"
        ) from None
    (path / "config.yaml").write_text(yaml.safe_dump(described(run), sort_keys=False))
    return path


def described(run: Run) -> dict[str, Any]:
    """Everything that determines the run, and what it ran on."""
    own = {
        field.name: getattr(run, field.name)
        for field in dataclasses.fields(run)
        if field.name not in ("data", "config", "overwrite")
    }
    settings = vars(run.data) | vars(run.config)
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
    machine = {
        "python": platform.python_version(),
        "threads": int(os.environ.get("NPROC", os.cpu_count() or 1)),
        "commit": _commit(),
        "versions": _versions(),
    }
    return own | {"settings": plain, "machine": machine}


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


def save_model(
    directory: Path, run: Run, spec: EnvSpec, policy: Policy, step: int
) -> None:
    """What `act` needs, as arrays and JSON; whole or not at all."""
    directory.parent.mkdir(exist_ok=True)
    fresh = directory.with_name(f".{directory.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    dataclasses.replace(policy, action=spec.action).save(fresh / "policy.npz")
    meta = {"algo": run.algo, "env": run.env, "step": step}
    (fresh / "model.json").write_text(json.dumps(meta, indent=2) + "\n")
    shutil.rmtree(directory, ignore_errors=True)
    fresh.rename(directory)
