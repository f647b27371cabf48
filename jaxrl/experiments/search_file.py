"""A search written down: what is fixed, what is tried, and how.

    name: sac-search
    algo: sac
    env: Hopper-v4
    steps: 100000
    trials: 40
    sampler: tpe                  # or random, qmc, grid, cmaes, gp
    pruner: median                # or none
    space:
      lr: {log_uniform: [1e-5, 1e-2]}
      gamma: {uniform: [0.9, 0.999]}
      batch_size: {int: [64, 512]}
      hidden: {choice: [[64, 64], [256, 256]]}

All mistakes are found at once, each with its line.
"""

import dataclasses
import importlib.util
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from jaxrl import yaml_lines
from jaxrl.errors import UserError, suggestion, unknown
from jaxrl.experiments import combinations, values
from jaxrl.experiments.grid_file import PLACES, SECTIONS, Builder, Entry
from jaxrl.experiments.mistakes import Mistakes
from jaxrl.experiments.variant import Variant
from jaxrl.settings.values import plain

KINDS = ("uniform", "log_uniform", "int", "choice")
# Each with the package that it needs beside Optuna.
SAMPLERS = {"tpe": "", "random": "", "qmc": "", "grid": "", "cmaes": "cmaes"}
SAMPLERS |= {"gp": "torch"}
PRUNERS = ("median", "none")
FOR_GRIDS = ("zip", "include", "exclude", "slurm")
NO_SPACE = "no space; name settings, as in space: {lr: {uniform: [0, 1]}}"
OWN = ("trials", "sampler", "pruner", "storage", "space")
TRIALS = 20  # where no number is given


class SearchRange(NamedTuple):
    """The values that one setting may take."""

    kind: str
    values: list[Any]

    @classmethod
    def from_mapping(cls, key: str, given: Any) -> Self:
        """Of a setting, from {kind: [low, high]}; raises where it is none."""
        given = plain(given)
        known = isinstance(given, Mapping) and len(given) == 1
        kind, bounds = next(iter(given.items())) if known else ("", None)
        if kind not in KINDS:
            hint = suggestion(str(kind), KINDS) or f"; write one of {', '.join(KINDS)}"
            raise UserError(f"{key} needs a range, as in {{uniform: [0, 1]}}{hint}")
        if not isinstance(bounds, list | tuple) or len(bounds) < 2:
            raise UserError(
                f"{key} needs two values at least, as in {{{kind}: [1, 2]}}"
            )
        if kind == "choice":
            return cls(kind, [one_word(value) for value in bounds])
        if len(bounds) > 2:
            raise UserError(
                f"{key} has {len(bounds)} numbers, but {kind} takes the lowest and the "
                f"highest; list values as {{choice: [...]}}"
            )
        low, high = (values.converted(key, value) for value in bounds)
        numbers = isinstance(low, int | float) and isinstance(high, int | float)
        if not numbers or not low < high or (kind == "log_uniform" and low <= 0):
            above = " above 0" if kind == "log_uniform" else ""
            raise UserError(f"{key} needs a lower and then a higher number{above}")
        return cls(kind, [low, high])

    def __repr__(self) -> str:
        """As in a file."""
        return f"{{{self.kind}: {self.values}}}"

    @property
    def listed(self) -> Sequence[Any]:
        """All values of a finite range; else none."""
        if self.kind == "int":
            return range(self.values[0], self.values[1] + 1)
        return self.values if self.kind == "choice" else ()

    def suggest(self, trial: Any, key: str) -> Any:
        """A value, chosen by the sampler."""
        if self.kind == "choice":
            return trial.suggest_categorical(key, self.values)
        if self.kind == "int":
            return trial.suggest_int(key, *self.values)
        return trial.suggest_float(key, *self.values, log=self.kind == "log_uniform")


def ranges(space: Mapping[str, Any]) -> dict[str, SearchRange]:
    """Of each setting in a space given from Python."""
    if not isinstance(space, Mapping) or not space:
        raise UserError(NO_SPACE)
    return {key: SearchRange.from_mapping(key, given) for key, given in space.items()}


def one_word(value: Any) -> Any:
    """A value that Optuna can store: a list of widths as on the command line."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSpec:
    """What is searched, and how."""

    name: str
    fixed: dict[str, Any]
    """The settings that all trials have in common."""
    space: dict[str, SearchRange]
    out: str = "runs"
    trials: int | None = None
    """In all; None for 20, or all combinations of a grid."""
    sampler: str = "tpe"
    pruner: str = "median"
    storage: str = ""
    """A URL of Optuna; by default a file beside the runs."""

    @property
    def root(self) -> Path:
        return Path(self.out) / self.name

    @property
    def total_trials(self) -> int:
        """How many to run; a grid has no more than its combinations."""
        if self.sampler != "grid":
            return self.trials or TRIALS
        every = math.prod(len(space.listed) for space in self.space.values())
        return min(self.trials or every, every)

    def combination(self, number: int) -> dict[str, Any]:
        """Of a grid, whose last setting varies fastest."""
        every = itertools.product(*(x.listed for x in self.space.values()))
        values = next(itertools.islice(every, number, None))
        return dict(zip(self.space, values, strict=True))

    def check(self) -> None:
        """Raises where the sampler cannot be used, or a value makes no run."""
        own: dict[str, Any] = {"sampler": self.sampler, "pruner": self.pruner}
        own |= {"storage": self.storage}
        own |= {} if self.trials is None else {"trials": self.trials}
        faults = [_fault(key, value) for key, value in own.items()]
        faults += [_space_fault(*pair, self.sampler) for pair in self.space.items()]
        algos = values.known_algorithms([self.fixed.get("algo")])
        given = [(key, [value]) for key, value in self.fixed.items()]
        given += [(key, space.values) for key, space in self.space.items()]
        faults += [values.fault(k, x, algos) for k, several in given for x in several]
        if wrong := [sentence for sentence in faults if sentence]:
            raise UserError("; ".join(dict.fromkeys(wrong)))
        first = {key: space.values[0] for key, space in self.space.items()}
        self.variant(0, first)  # raises where settings do not go together

    def variant(self, number: int, chosen: Mapping[str, Any]) -> Variant:
        own = {key: values.converted(key, value) for key, value in chosen.items()}
        settings = combinations.nested(self.fixed | own)
        return Variant.from_settings(settings, f"{self.name}_t{number}", str(self.root))


def read(path: str) -> SearchSpec:
    """The search in a YAML file; raises with all that is wrong."""
    data, lines, found = yaml_lines.read(path)
    builder = Builder(Path(path).stem, Mistakes(lines, found), "search", OWN)
    _add_fixed(builder, data)
    own = {key: data[key] for key in OWN if key in data and key != "space"}
    for key, value in own.items():
        builder.mistakes.add((key,), _fault(key, value))
    space = _space(builder, data, own.get("sampler"))
    filled = builder.grid_file(path, {})
    (fixed,) = filled.grid.variants()
    return SearchSpec(
        name=filled.grid.name, fixed=fixed, out=filled.out, space=space, **own
    )


def _add_fixed(builder: Builder, data: Mapping[str, Any]) -> None:
    """The settings that all trials have in common: one value each."""
    shared = {k: x for k, x in data.items() if k not in (*OWN, *FOR_GRIDS)}
    builder.add_all(shared)
    for key, given in data.items():
        entry = Entry((key,), given)
        if key in FOR_GRIDS:
            what = "a search tries what is in space, on this machine"
            builder.mistakes.add(entry.place, f"{what}; {key} is for grids")
        elif key not in (*OWN, *SECTIONS) and not builder.key_fault(entry.key):
            builder.mistakes.add(entry.place, _list_fault(entry))


def _list_fault(entry: Entry) -> str:
    if len(entry.values) < 2 or entry.key in PLACES:
        return ""
    several = ", ".join(map(str, entry.values[:2]))
    example = f"{entry.key}: {{choice: [{several}{', ..' * (len(entry.values) > 2)}]}}"
    return (
        f"a search takes one value of {entry.key}; to try several, keep one here and "
        f"write {example} in space"
    )


def _space(
    builder: Builder, data: Mapping[str, Any], sampler: Any
) -> dict[str, SearchRange]:
    """What is tried."""
    if not data.get("space"):
        builder.mistakes.add((), NO_SPACE)
        return {}
    found = {}
    for key, given in builder.mapping(data["space"], ("space",)).items():
        place = ("space", key)
        if wrong := builder.key_fault(str(key)):
            builder.mistakes.add(place, wrong)
            continue
        # A file always has one algorithm and environment, to begin with.
        if key in data and key not in ("algo", "env"):
            line = builder.mistakes.line((key,))
            builder.mistakes.add(place, f"{key} is already set on line {line}")
        try:
            found[key] = SearchRange.from_mapping(key, given)
        except UserError as error:
            builder.mistakes.add(place, str(error))
            continue
        for value in found[key].values:
            fault = values.value_fault(key, value, builder.algos)
            builder.mistakes.add(place, fault)
        builder.mistakes.add(place, _space_fault(key, found[key], sampler))
    return found


def _space_fault(key: str, space: SearchRange, sampler: Any) -> str:
    if sampler != "grid" or space.listed:
        return ""
    return f"{key}: the grid sampler needs a finite range; use `choice` or `int`"


def _fault(key: str, value: Any) -> str:
    choices = {"sampler": tuple(SAMPLERS), "pruner": PRUNERS}.get(key)
    if choices and value not in choices:
        return unknown(key, str(value), choices)
    package = SAMPLERS[value] if key == "sampler" else ""
    if package and importlib.util.find_spec(package) is None:
        return f"the sampler {value} needs a package: pip install {package}"
    whole = isinstance(value, int) and not isinstance(value, bool)
    if key == "trials" and (not whole or value < 1):
        return f"trials is {value!r}, but must be a whole number >= 1"
    if key == "storage" and not re.match(r"[\w+.-]+://|$", str(value)):
        return "storage is no URL of Optuna, as in sqlite:////home/me/trials.db"
    return ""
