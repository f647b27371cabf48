"""Reads the directories of runs, also while they are being written.

Free of JAX, so that commands which read runs start at once.
"""

import dataclasses
import fcntl
import functools
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl import files
from jaxrl.algos import label
from jaxrl.errors import UserError
from jaxrl.logging.columns import RETURNS, STEPS
from jaxrl.policy import Policy
from jaxrl.runs import status
from jaxrl.runs.progress_table import columns
from jaxrl.runs.spec import MODELS, total_steps
from jaxrl.runs.status import State, Status
from jaxrl.yaml_lines import parsed

MODEL = "model.json"  # algorithm, environment and step of a model
POLICY = "policy.npz"  # of a model, played by NumPy
ARRAYS = "act.npz"  # of a model, played by JAX and a user's code
CONFIG = "config.yaml"  # the settings of a run
LOCK = ".lock"  # held by the process that writes the run
LOGGER = "jaxrl.Logger"  # in `logged_by` of a config.yaml that it wrote
LAST = 5  # epochs over which returns are averaged
CODE = "algo_sha256"  # in config.yaml, of a user's algorithm
MANIFEST = "manifest.json"  # of a checkpoint, written last
OWN_LOOP = {"exp_name": str, "seed": int}
NEEDED = {"algo": str, "env": str, **OWN_LOOP, "max_ep_len": int}
"""What every config.yaml has; that of a user's own loop, less."""
LATER = {"num_procs": 1, "init_from": "", "init_optimizer": False}
LATER |= {"stop_return": math.inf, "stop_without_improvement": 0}
"""Settings of a run, with their defaults, on which its results depend too."""


@dataclasses.dataclass(frozen=True)
class Record:
    """A run's directory and its config.yaml."""

    path: Path
    config: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the directory."""
        return self.path.resolve().name

    @property
    def is_own_loop(self) -> bool:
        """Whether jaxrl.Logger wrote it, and not one of jaxrl's algorithms."""
        return self.config.get("logged_by") == LOGGER

    def setting(self, name: str) -> Any:
        """Of the run, its data or its algorithm; None where there is none so named.

        A user's algorithm is called by the name of its file.
        """
        found = self.config.get(name, self.config["settings"].get(name))
        return label(found) if name == "algo" else found

    @functools.cached_property
    def progress(self) -> dict[str, np.ndarray]:
        """The columns of progress.csv, with NaN for empty cells; {} before a row."""
        return columns(self.path / "progress.csv", self.path)

    @property
    def total_steps(self) -> int:
        """Environment steps of the whole run; 0 if nobody knows."""
        if self.is_own_loop:
            return 0
        known = map(self.setting, ("steps", "steps_per_epoch", "epochs"))
        steps, per_epoch, epochs = (x if type(x) is int and x > 0 else 0 for x in known)
        # Only off-policy data has a replay buffer.
        on_policy = self.setting("replay_size") is None
        return total_steps(steps, per_epoch, epochs, on_policy)

    @property
    def status(self) -> Status | None:
        """What the run wrote of itself; None before it started."""
        return status.read(self.path / status.FILE)

    @property
    def num_procs(self) -> int:
        """Processes that learn together."""
        count = self.config.get("num_procs")
        return count if type(count) is int and 0 < count < 10_000 else 1

    @property
    def state(self) -> State:
        """By its lock, its status and its checkpoints."""
        if _is_held(self.path / LOCK):
            return "running"
        known = self.status
        if self._is_complete(known):
            return "finished"
        # Without a process that holds the lock, "running" means that it was killed; a
        # finished run that is short of its steps was to be made longer.
        if known is None or known.state in ("running", "finished"):
            return "interrupted"
        return known.state

    def _is_complete(self, known: Status | None) -> bool:
        """Whether all steps are saved."""
        if known and known.state == "finished" and known.step >= self.total_steps:
            return True
        # A callback finished it, and it was not made longer since.
        same_end = known is not None and known.total_steps == self.total_steps
        if known and known.state == "finished" and known.stopped_by and same_end:
            return True
        # It may have been killed before it wrote so. The rows in its own progress.csv
        # may be newer than the last checkpoint, and are then repeated.
        checkpoints = self.path / "checkpoints"
        newest = [checkpoints / str(n) for n in saved_checkpoints(self.path)[-1:]]
        kept = columns(newest[0] / "progress.csv", self.path) if newest else {}
        return bool(kept) and kept[STEPS][-1] >= self.total_steps

    def policy(self, model: str | int) -> Policy:
        """The policy of the last or best model, or that of a step."""
        if self.is_own_loop:
            raise UserError(
                f"{self.path} was logged by {LOGGER}, so it has no policy of jaxrl; "
                "jaxrl.load_model loads its models"
            )
        if self.needs_jax(model):
            raise UserError(
                f"the policy of {self.path} has networks or an algorithm of a user, "
                "which NumPy cannot play; jaxrl.load plays it in Python"
            )
        path = self.model(model) / POLICY
        try:
            return Policy.load(path, inside=self.path)
        except ValueError as error:
            raise UserError(str(error)) from None
        except OSError as error:
            raise UserError(f"cannot read {path}: {files.reason(error)}") from None

    def needs_jax(self, model: str | int, explores: bool = False) -> bool:
        """Whether the model is played by a user's code."""
        if self.is_own_loop:
            return False
        place = self.model(model)
        alone = explores or not os.path.lexists(place / POLICY)
        return alone and os.path.lexists(place / ARRAYS)

    @property
    def model_steps(self) -> list[int]:
        """The steps of its models, in order."""
        return [name for name in self._models() if isinstance(name, int)]

    def model(self, model: str | int) -> Path:
        """Its directory."""
        models = self._models()
        if model in models:
            return models[model]
        if not models:
            yet = " yet" if self.state == "running" else ""
            raise UserError(
                f"{self.path} has no model {model!r}{yet}; a run saves one every "
                "`save_freq` epochs and at its end"
            )
        raise UserError(
            f"{self.path} has no model {model!r}; it has {', '.join(map(str, models))}"
        )

    def _models(self) -> dict[str | int, Path]:
        """By name where they have one, and all by their steps, in order."""
        found = [file.parent for file in self.path.glob(f"models/[!.]*/{MODEL}")]
        known = [(_step(path, self.path), path) for path in found]
        steps = {step: path for step, path in known if step is not None}
        named = {path.name: path for path in found if path.name in MODELS}
        return {**dict(sorted(named.items())), **dict(sorted(steps.items()))}


def _step(model: Path, run: Path) -> int | None:
    """At which a model was saved, if it says so."""
    try:
        step = json.loads(files.read_text(model / MODEL, inside=run))["step"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return step if type(step) is int and 0 <= step < 10**18 else None


def determining(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a config.yaml on which a run's results depend."""
    own = ("algo", "env", "seed", "steps", "env_kwargs")
    known = {name: config.get(name) for name in own}
    known |= {name: config[name] for name in (CODE, "networks") if config.get(name)}
    # Runs of earlier versions lack some.
    known |= {name: config.get(name, usual) for name, usual in LATER.items()}
    return known | config["settings"]


def returns(progress: Mapping[str, np.ndarray]) -> np.ndarray:
    """The return of each epoch: of its test episodes, or else of the training's."""
    known = [progress[name] for name in RETURNS if name in progress]
    return known[0] if known else np.empty(0)


def mean_return(returns: np.ndarray) -> float | None:
    """Of the last epochs; None without an episode. A search compares trials by it."""
    last = returns[-LAST:]
    known = last[~np.isnan(last)]
    return float(known.mean()) if len(known) else None


def saved_checkpoints(run: Path) -> list[int]:
    """The numbers of the complete ones, in order."""
    found = (run / "checkpoints").glob(f"*/{MANIFEST}")
    return sorted(int(p.parent.name) for p in found if p.parent.name.isdecimal())


def _is_held(lock: Path) -> bool:
    """Whether a process writes the run; the check holds the lock for a moment."""
    try:
        with files.open_regular(lock, files.SMALL, inside=lock.parent) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def record(directory: str | os.PathLike[str]) -> Record:
    """The run in the directory."""
    if not isinstance(directory, str | os.PathLike):
        raise UserError(f"{directory!r:.80} is no path; give the directory of a run")
    path = Path(directory)
    file = path / CONFIG
    if os.path.isfile(path):
        raise UserError(f"{path} is a file; name the directory of the run")
    if not os.path.isdir(path):
        raise UserError(f"there is no directory {path}")
    if not os.path.isfile(file):
        near = [*path.glob("*/config.yaml"), *path.glob("*/*/config.yaml")]
        inside = [str(found.parent) for found in sorted(near)]
        hint = f"; did you mean {' or '.join(inside[:3])}?" if inside else ""
        raise UserError(f"{path} is not the directory of a run: no config.yaml{hint}")
    config = yaml_in(file, inside=path)
    if missing := _missing(config):
        raise UserError(f"{file} is damaged; missing or invalid: {', '.join(missing)}")
    return Record(path, {"algo": "", "env": ""} | config)


def yaml_in(file: Path, inside: Path | None = None) -> Any:
    """What a YAML file holds; `inside` is the directory of the run it belongs to."""
    try:
        return parsed(files.read_text(file, files.SETTINGS, inside))
    except OSError as error:
        raise UserError(f"cannot read {file}: {files.reason(error)}") from None
    except ValueError as error:
        raise UserError(f"{file} is not YAML: {error}") from None


def _missing(config: Any) -> list[str]:
    own = config if isinstance(config, dict) else {}
    settings = own.get("settings")
    known = own | settings if isinstance(settings, dict) else {}
    needed = OWN_LOOP if own.get("logged_by") == LOGGER else NEEDED
    return [
        name
        for name, kind in needed.items()
        if type(known.get(name)) is not kind or known[name] == ""
    ]
