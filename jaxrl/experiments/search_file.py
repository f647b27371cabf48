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

from jaxrl.errors import UserError, suggestion
from jaxrl.experiments import grid, grid_file
from jaxrl.experiments.variant import Variant

KINDS = ("uniform", "log_uniform", "int", "choice")
# Each with the package that it needs beside Optuna.
SAMPLERS = {"tpe": "", "random": "", "qmc": "", "grid": "", "cmaes": "cmaes"}
SAMPLERS |= {"gp": "torch"}
PRUNERS = ("median", "none")
FOR_GRIDS = ("zip", "include", "exclude", "slurm")
NO_SPACE = "no space; name settings, as in space: {lr: {uniform: [0, 1]}}"
OWN = ("trials", "sampler", "pruner", "storage", "space")
TRIALS = 20  # where no number is given


class Range(NamedTuple):
    """The values that one setting may take."""

    kind: str
    values: list[Any]

    @classmethod
    def of(cls, key: str, given: Any) -> Self:
        """From {kind: [low, high]}; refuses what is none."""
        known = isinstance(given, Mapping) and len(given) == 1
        kind, values = next(iter(given.items())) if known else ("", None)
        if kind not in KINDS:
            hint = suggestion(str(kind), KINDS) or f"; write one of {', '.join(KINDS)}"
            raise UserError(f"{key} has no range: as in {{uniform: [0, 1]}}{hint}")
        if not isinstance(values, list) or len(values) < 2:
            raise UserError(
                f"{key} needs two values at least, as in {{{kind}: [1, 2]}}"
            )
        if kind == "choice":
            return cls(kind, [one_word(value) for value in values])
        if len(values) > 2:
            raise UserError(
                f"{key} has {len(values)} numbers, but {kind} takes the lowest and the "
                f"highest; list values as {{choice: [...]}}"
            )
        low, high = (grid.converted(key, value) for value in values)
        numbers = isinstance(low, int | float) and isinstance(high, int | float)
        if not numbers or not low < high or (kind == "log_uniform" and low <= 0):
            above = " above 0" if kind == "log_uniform" else ""
            raise UserError(f"{key} goes from a lower to a higher number{above}")
        return cls(kind, [low, high])

    def __repr__(self) -> str:
        """As it stands in a file."""
        return f"{{{self.kind}: {self.values}}}"

    @property
    def listed(self) -> Sequence[Any]:
        """All values, where they can be counted; else none."""
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


def ranges(space: Mapping[str, Any]) -> dict[str, Range]:
    """Of each setting in the space of a program."""
    if not isinstance(space, Mapping) or not space:
        raise UserError(NO_SPACE)
    return {key: Range.of(key, given) for key, given in space.items()}


def one_word(value: Any) -> Any:
    """What Optuna can keep: a list of widths as on the command line."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What is searched, and how."""

    name: str
    fixed: dict[str, Any]
    """The settings that all trials have in common."""
    space: dict[str, Range]
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
    def most(self) -> int:
        """Trials to be made; a grid has no more than its combinations."""
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
        """Refuses what no sampler can make, or no run can be made of."""
        own: dict[str, Any] = {"sampler": self.sampler, "pruner": self.pruner}
        own |= {"storage": self.storage}
        own |= {} if self.trials is None else {"trials": self.trials}
        faults = [_fault(key, value) for key, value in own.items()]
        faults += [_fault_in_space(*pair, self.sampler) for pair in self.space.items()]
        if wrong := [sentence for sentence in faults if sentence]:
            raise UserError("; ".join(wrong))
        first = {key: space.values[0] for key, space in self.space.items()}
        for key, space in self.space.items():
            for value in space.values:
                self.variant(0, first | {key: value})

    def variant(self, number: int, chosen: Mapping[str, Any]) -> Variant:
        own = {key: grid.converted(key, value) for key, value in chosen.items()}
        settings = grid.nested(self.fixed | own)
        return Variant.of(settings, f"{self.name}_t{number}", str(self.root))


def read(path: str) -> Plan:
    """The search in a YAML file; refuses it with all that is wrong."""
    reader = grid_file.Reader(Path(path).stem, "search", OWN)
    pairs = reader.pairs(grid_file.composed(path))
    _take_settings(reader, pairs)
    given = [pair for pair in pairs if pair[0] in OWN and pair[0] != "space"]
    own: dict[str, Any] = {key: reader.plain(node) for key, _, node in given}
    for key, line, _ in given:
        reader.wrong(line, _fault(key, own[key]))
    own["space"], empty = {}, True
    for key, line, node in pairs:
        if key == "space":
            space = reader.mapping(line, node, key, "{lr: {uniform: [0, 1]}}")
            # A file has always one algorithm and environment, if only to begin with.
            lines = {k: at for k, at, _ in pairs if k not in ("algo", "env")}
            own["space"] = _space(reader, space, lines, own.get("sampler"))
            empty = not node.value
    if empty:
        reader.wrong(0, NO_SPACE)
    filled, out, _ = reader.sheet(path)
    (fixed,) = filled.variants()
    return Plan(name=filled.name, fixed=fixed, out=out, **own)


def _take_settings(reader: grid_file.Reader, pairs: list[grid_file.Pair]) -> None:
    """Those that all trials have in common: one value each."""
    reader.take([pair for pair in pairs if pair[0] not in (*OWN, *FOR_GRIDS)])
    for key, line, node in pairs:
        if key in FOR_GRIDS:
            what = "a search tries what is in space, on this machine"
            reader.wrong(line, f"{what}; {key} is for grids")
        elif key not in (*OWN, *grid_file.SECTIONS):
            entry = reader.entry(key, line, node)
            known = not reader.fault_of_key(entry.key)
            reader.wrong(line, _fault_of_list(entry) if known else "")


def _fault_of_list(entry: grid_file.Entry) -> str:
    if len(entry.values) < 2 or entry.key in grid_file.PLACES:
        return ""
    values = ", ".join(str(value.plain) for value in entry.values[:2])
    example = f"{entry.key}: {{choice: [{values}{', ..' * (len(entry.values) > 2)}]}}"
    return (
        f"a search takes one value of {entry.key}; to try several, keep one here and "
        f"write {example} in space"
    )


def _space(
    reader: grid_file.Reader,
    pairs: list[grid_file.Pair],
    elsewhere: dict[str, int],
    sampler: Any,
) -> dict[str, Range]:
    """What is tried; `elsewhere` has the lines of what is fixed."""
    found = {}
    for key, line, node in pairs:
        if fault := reader.fault_of_key(key):
            reader.wrong(line, fault)
            continue
        if key in elsewhere:
            reader.wrong(line, f"{key} stands on line {elsewhere[key]} already")
        try:
            found[key] = Range.of(key, reader.plain(node))
        except UserError as error:
            reader.wrong(line, str(error))
            continue
        for value in found[key].values:
            reader.wrong(line, reader.fault(key, value))
        reader.wrong(line, _fault_in_space(key, found[key], sampler))
    return found


def _fault_in_space(key: str, space: Range, sampler: Any) -> str:
    if sampler != "grid" or space.listed:
        return ""
    return f"{key} has no end of values, but the sampler grid tries all: list a choice"


def _fault(key: str, value: Any) -> str:
    choices = {"sampler": tuple(SAMPLERS), "pruner": PRUNERS}.get(key)
    if choices and value not in choices:
        hint = suggestion(str(value), choices) or f"; choose {' or '.join(choices)}"
        return f"there is no {key} {value!r}{hint}"
    package = SAMPLERS[value] if key == "sampler" else ""
    if package and importlib.util.find_spec(package) is None:
        return f"the sampler {value} needs a package: pip install {package}"
    whole = isinstance(value, int) and not isinstance(value, bool)
    if key == "trials" and (not whole or value < 1):
        return f"trials is {value!r}, but must be a whole number from 1 on"
    if key == "storage" and not re.match(r"[\w+.-]+://|$", str(value)):
        return "storage is no URL of Optuna, as in sqlite:////home/me/trials.db"
    return ""
