"""Variants that call a user's function, each in its own process.

The process gets the function by its name and the settings as YAML. Importing this does
not import JAX, so that a function can still decide how JAX starts.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import yaml

from jaxrl import files
from jaxrl.errors import UserError, differences, suggestion
from jaxrl.experiments import combinations
from jaxrl.experiments.combinations import LONGEST
from jaxrl.experiments.functions import FunctionName
from jaxrl.processes import subprocesses
from jaxrl.runs import contents, reading, spec, status
from jaxrl.settings.values import plain

if typing.TYPE_CHECKING:
    from jaxrl.experiments.grid import Grid

PLAIN = (type(None), bool, int, float, str)


@dataclasses.dataclass(frozen=True)
class FunctionVariant:
    """One call of a function with settings; to the runner it is like a `Variant`."""

    function: FunctionName
    settings: dict[str, Any]
    group: str
    """Its name without the seed."""
    out: str

    processes = 1
    total_steps = 0  # nobody knows them

    @property
    def name(self) -> str:
        return f"{self.group}_s{self.settings.get('seed', 0)}"

    @property
    def path(self) -> Path:
        return Path(self.out) / self.group / self.name

    @property
    def file(self) -> Path:
        """Its function and settings, as the process that calls it reads them."""
        return self.path.with_name(f"{self.name}.yaml")

    @property
    def determining(self) -> dict[str, Any]:
        """What its results depend on; a script may have moved."""
        return {"function": self.function.name} | self.settings

    def write(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(self.file, self._text())

    def _text(self) -> str:
        known = {"function": str(self.function), "settings": self.settings}
        return yaml.safe_dump(known, sort_keys=False)

    @classmethod
    def read(cls, file: Path) -> Self:
        """The one whose function and settings are in the file."""
        known = reading.yaml_in(file)
        try:
            function = FunctionName.from_text(known["function"])
            settings = dict(known["settings"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError(f"{file} does not describe a call of a function") from None
        return cls(function, settings, file.parent.name, str(file.parent.parent))

    @property
    def is_finished(self) -> bool:
        """Whether its process said so and its directory is still there."""
        ended = status.read(status.outcome_file(self.path))
        return self.path.is_dir() and ended is not None and ended.state == "finished"

    def changes_on_disk(self) -> list[str]:
        """How the call in its directory differs from this one, a setting each."""
        if not self.path.is_dir() or not self.file.is_file():
            return []
        return differences(type(self).read(self.file).determining, self.determining)

    def program(self, replacing: bool) -> list[str]:
        """The words after `python` that call it; nothing is resumed."""
        return ["-u", "-P", "-m", "jaxrl.experiments.function_task", str(self.file)]

    @property
    def environment(self) -> dict[str, str]:
        """Its process finds the modules that this one finds, and no others."""
        return subprocesses.module_path()

    @property
    def progress(self) -> dict[str, np.ndarray]:
        """The table in its directory, if the function writes one; else {}."""
        try:
            return reading.Record(self.path, {}).progress
        except UserError:  # not a table of ours
            return {}

    def move_aside(self) -> Path | None:
        """Gives an earlier attempt's directory another name; None if it is empty."""
        ours = (status.FILE,)
        if not self.path.is_dir():
            return None
        if not [entry for entry in self.path.iterdir() if entry.name not in ours]:
            return None
        kept = contents.new_directory(self.path)
        self.path.rename(kept)
        return kept

    def fault(self) -> str:
        """What is wrong with its settings; empty if nothing is."""
        if "directory" in self.settings:
            return "directory is not a setting: the grid gives each call its own"
        seed = self.settings.get("seed", 0)
        if type(seed) is not int or seed < 0:
            return f"seed is {seed!r}, but must be a whole number >= 0"
        for key, value in self.settings.items():
            if not is_plain(value):
                return (
                    f"{key} is {value!r}, but a function's settings are numbers, "
                    "texts, booleans, None, and lists and dicts of them"
                )
        if len(self.name) > LONGEST:
            return (
                f"a name of {len(self.name)} characters is too long "
                f"({self.name[:40]}...); give the settings shorter shorthands"
            )
        size, most = len(self._text().encode(errors="replace")), files.SETTINGS
        return f"the settings of {self.name} are too long" if size > most else ""


def is_plain(value: Any) -> bool:
    """Whether YAML can write it and read the same."""
    try:
        if isinstance(value, dict):
            return all(isinstance(k, str) for k in value) and all(
                map(is_plain, value.values())
            )
        if isinstance(value, list):
            return all(map(is_plain, value))
    except RecursionError:
        return False
    # A part of a character cannot be written.
    broken = (
        isinstance(value, str) and "\ufffd" in value.encode("utf-8", "replace").decode()
    )
    return type(value) in PLAIN and not broken


def from_grid(
    grid: "Grid", fn: Callable[..., Any] | str, out: str
) -> list[FunctionVariant]:
    """All variants of a grid as calls of a function; reports all mistakes at once."""
    if wrong := spec.fault_in_name(grid.name, "the name"):
        raise UserError(wrong)
    plain_grid = grid.with_values_as_given()
    settings = plain_grid.variants()
    names = [plain_grid.variant_name(each) for each in settings]
    if faults := combinations.collisions(settings, names):
        raise UserError("; ".join(faults))
    if not settings:
        raise UserError("there is no variant in the grid")
    pairs = list(zip(settings, names, strict=True))
    return _variants(fn, pairs, f"{out}/{grid.name}")


def _variants(
    fn: Callable[..., Any] | str, every: list[tuple[dict[str, Any], str]], out: str
) -> list[FunctionVariant]:
    """Those of settings and names; refuses all that the function cannot take."""
    if isinstance(fn, str):
        function, signature = FunctionName.from_text(fn), None
    else:
        function, signature = FunctionName.from_function(fn), _signature(fn)
    found = [
        FunctionVariant(function, _lists(plain(settings)), name, out)
        for settings, name in every
    ]
    faults = dict.fromkeys(variant.fault() for variant in found)
    if signature:
        faults |= dict.fromkeys(_misfit(signature, one.settings) for one in found)
    if wrong := [sentence for sentence in faults if sentence]:
        raise UserError("; ".join(wrong))
    return found


def _lists(value: Any) -> Any:
    """Tuples as lists, as YAML gives them back."""
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [*map(_lists, value)] if isinstance(value, list | tuple) else value


def _signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):  # of a function in C
        return None


def _misfit(signature: inspect.Signature, settings: Mapping[str, Any]) -> str:
    """Why the function cannot be called with these settings; empty if it can."""
    known = signature.parameters
    anything = [x for x in known.values() if x.kind is inspect.Parameter.VAR_KEYWORD]
    unknown = [key for key in ("directory", *settings) if key not in known]
    if unknown and not anything:
        hint = suggestion(unknown[0], known) or f"; it takes {signature}"
        return f"the function has no parameter {unknown[0]!r}{hint}"
    try:
        signature.bind(directory=Path(), **settings)
    except TypeError as error:
        return f"the function cannot be called: {error}; it takes {signature}"
    return ""
