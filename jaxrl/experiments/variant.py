"""One run of a grid or a search: its settings, its files, and its changes."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import yaml

from jaxrl.algos import presets
from jaxrl.errors import UserError, differences
from jaxrl.experiments.combinations import LONGEST
from jaxrl.files import write_atomically
from jaxrl.processes import subprocesses, threads
from jaxrl.runs import directory, reading, spec
from jaxrl.runs.spec import Run
from jaxrl.settings.values import plain


@dataclasses.dataclass(frozen=True)
class Variant:
    """A run that is started from a file beside its directory."""

    run: Run
    settings: dict[str, Any]

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], name: str, out: str) -> Self:
        """The run with these settings, named and placed; reports all that is wrong."""
        if absent := [key for key in ("algo", "env") if not settings.get(key)]:
            raise UserError(f"a variant needs {' and '.join(absent)}")
        if len(name) > LONGEST:
            raise UserError(
                f"a name of {len(name)} characters is too long ({name[:40]}...); give "
                "the settings shorter shorthands"
            )
        whole = plain(settings) | {"exp_name": name, "out": out}
        own = {k: x for k, x in whole.items() if k not in ("algo", "env", "preset")}
        preset = str(whole.get("preset", presets.AUTO))
        algo = whole["algo"]
        run = spec.make(algo, str(whole["env"]), own, preset)
        if not run.num_procs:  # auto; fixed here, so that a rerun finds the same
            own["num_procs"] = whole["num_procs"] = threads.physical_cores()
            run = spec.make(algo, str(whole["env"]), own, preset)
        # The path of a user's algorithm is absolute from here on.
        return cls(run, whole | {"algo": run.algo})

    @classmethod
    def read(cls, file: Path) -> Self:
        """The one whose settings are in the file."""
        settings = reading.yaml_in(file)
        try:
            name, out = settings["exp_name"], settings["out"]
        except (KeyError, TypeError):
            raise UserError(f"{file} does not describe a run") from None
        return cls.from_settings(settings, name, out)

    @property
    def processes(self) -> int:
        """How many learn together, each on its own core."""
        return self.run.num_procs

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def path(self) -> Path:
        return directory.run_path(self.run)

    @property
    def file(self) -> Path:
        """Its settings, as `jaxrl train --config` reads them."""
        return self.path.with_name(f"{self.name}.yaml")

    @property
    def total_steps(self) -> int:
        return self.run.total_steps

    def write(self) -> None:
        plain = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in self.settings.items()
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, yaml.safe_dump(plain, sort_keys=False))

    @property
    def record(self) -> reading.Record | None:
        """Its directory, if it was ever started."""
        begun = (self.path / "config.yaml").exists()
        return reading.record(self.path) if begun else None

    @property
    def progress(self) -> dict[str, np.ndarray]:
        """Its table so far; {} where it cannot be read at this moment."""
        try:
            record = self.record
            return record.progress if record else {}
        except UserError:  # being removed at this moment, or damaged
            return {}

    @property
    def determining(self) -> dict[str, Any]:
        """The settings on which its results depend."""
        return reading.determining(directory.settings(self.run))

    def changes(self, record: reading.Record) -> list[str]:
        """How the run that was recorded differs from this one, a setting each.

        A run of an earlier version lacks settings that are new; it had their defaults.
        """
        known = spec.known_settings(self.run.algo)
        now, before = self.determining, reading.determining(record.config)
        new = {name: known[name].default for name in now.keys() & known.keys()}
        return differences({k: new[k] for k in new if k not in before} | before, now)

    @property
    def is_finished(self) -> bool:
        record = self.record
        return record is not None and record.state == "finished"

    def changes_on_disk(self) -> list[str]:
        """How the run in its directory differs from this one, a setting each."""
        record = self.record
        return self.changes(record) if record else []

    def program(self, replacing: bool) -> list[str]:
        """The words after `python` that start it, or resume what is in its directory.

        With `replacing`, an earlier run with other settings is removed.
        """
        words = ["train", "--config", str(self.file)]
        if self.record is not None and not replacing:
            words = ["resume", str(self.path), *["--wandb"] * self.run.wandb]
        elif self.path.exists():  # or one killed before it had its settings
            words.append("--overwrite")
        return ["-P", "-m", "jaxrl", *words]

    @property
    def environment(self) -> dict[str, str]:
        """Its process also finds a user's modules in the current directory."""
        return subprocesses.module_path(os.getcwd())
