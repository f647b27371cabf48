"""What runs have left behind, read back: also from a run that is still being written.

Free of JAX, so that looking at a run starts at once.
"""

import csv
import dataclasses
import functools
import glob
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from jaxrl.policy import Policy
from jaxrl.runs.refusal import Refused

CHECKPOINTS = ("last", "best")
NEEDED = ("algo", "env", "exp_name", "seed", "max_ep_len")  # of a config.yaml


@dataclasses.dataclass(frozen=True)
class Record:
    """A run's directory and its config.yaml."""

    path: Path
    config: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.name

    def setting(self, name: str) -> Any:
        """Of the run, its data or its algorithm; None where there is none so named."""
        return self.config.get(name, self.config["settings"].get(name))

    @functools.cached_property
    def progress(self) -> dict[str, np.ndarray]:
        """The columns of progress.csv, with NaN for empty cells; {} before a row."""
        return _columns(self.path / "progress.csv")

    def policy(self, checkpoint: str) -> Policy:
        """The policy that was saved last, or best."""
        path = self.path / "models" / checkpoint / "policy.npz"
        if not path.exists():
            raise Refused(
                f"{self.path} has no model {checkpoint!r} yet; a run saves one every "
                "`save_freq` epochs and at its end"
            )
        try:
            return Policy.load(path)
        except ValueError as error:
            raise Refused(str(error)) from None
        except OSError as error:
            raise Refused(f"cannot read {path}: {error.strerror}") from None


def record(directory: str | os.PathLike[str]) -> Record:
    """The run in the directory."""
    path = Path(directory)
    file = path / "config.yaml"
    if not os.path.isdir(path):
        raise Refused(f"there is no directory {path}")
    if not os.path.exists(file):
        inside = [found.name for found in _runs_under(path)]
        hint = f"; it holds {', '.join(inside[:3])}" if inside else ""
        raise Refused(f"{path} is not the directory of a run: no config.yaml{hint}")
    config = yaml_in(file)
    if missing := _missing(config):
        raise Refused(f"{file} is damaged: it has no {', '.join(missing)}")
    return Record(path, config)


def yaml_in(file: Path) -> Any:
    """What a YAML file holds."""
    try:
        return parsed(file.read_text())
    except OSError as error:
        raise Refused(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise Refused(f"{file} is not YAML: {error}") from None


def parsed(text: str) -> Any:
    """What YAML says; a ValueError, in a line, where it is not YAML."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _missing(config: Any) -> list[str]:
    own = config if isinstance(config, dict) else {}
    settings = own.get("settings")
    known = own | settings if isinstance(settings, dict) else {}
    return [name for name in NEEDED if known.get(name) in (None, "")]


def find(patterns: Iterable[str]) -> list[Record]:
    """The runs at or under the directories that paths and globs name, each once."""
    found: dict[Path, Record] = {}
    for pattern in patterns:
        exact = os.path.exists(pattern)
        paths = [pattern] if exact else sorted(glob.glob(pattern))
        runs = [run for path in paths for run in _runs_under(Path(path))]
        if not paths:
            raise Refused(f"nothing is at {pattern}; give directories or globs of them")
        if not runs:
            raise Refused(f"there is no run in {pattern}: no config.yaml under it")
        found |= {run.resolve(): record(run) for run in runs}
    return list(found.values())


def _runs_under(path: Path) -> list[Path]:
    """The directories with a config.yaml; what is inside of one is part of it."""
    found = []
    for directory, inner, files in os.walk(path):
        inner.sort()
        if "config.yaml" in files:
            found.append(Path(directory))
            inner.clear()
    return found


def _columns(path: Path) -> dict[str, np.ndarray]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {path}: {error}") from None
    whole = text[: text.rfind("\n") + 1]  # a last line without its end is being written
    header, *rows = csv.reader(whole.splitlines()) if whole else [[]]
    if not rows:
        return {}
    try:
        table = np.array([[float(cell or "nan") for cell in row] for row in rows])
        return dict(zip(header, table.T, strict=True))
    except ValueError:
        raise Refused(
            f"{path} is damaged: each row must hold {len(header)} numbers"
        ) from None
