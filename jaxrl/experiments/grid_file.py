"""A grid written down: in a YAML file whose lists are axes, or in one line of flags.

    name: sac-lr
    algo: sac
    env: [Hopper-v4, Walker2d-v4]
    seed: [0, 1, 2]
    lr[rate]: [1e-3, 3e-4]                # `rate` stands for it in names
    zip:                                  # settings that move together
      - {batch_size: [100, 256], update_every: [50, 64]}
    exclude:                              # combinations left out
      - {env: Hopper-v4, lr: 1e-3}
    include:                              # and added
      - {lr: 1e-4, env: Hopper-v4}
    per_env:                              # other values in one environment
      Walker2d-v4: {steps: 2000000}
    slurm:                                # what --launcher slurm asks of the cluster
      {partition: gpu, time: 4:00:00, cpus: 4, gpus: 1}

All mistakes are found at once, each with its line.
"""

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl import algos, yaml_lines
from jaxrl.errors import UserError, suggestion
from jaxrl.experiments import combinations, slurm, values
from jaxrl.experiments.grid import Grid
from jaxrl.experiments.mistakes import Mistakes
from jaxrl.experiments.slurm import Slurm
from jaxrl.experiments.variant import Variant
from jaxrl.runs import spec
from jaxrl.training import compatibility
from jaxrl.yaml_lines import Place

SECTIONS = ("zip", "include", "per_env", "slurm", "exclude")
PLACES = ("name", "exp_name", "out")
TRIED = 100  # environments that are made, to see whether algorithms can act in them
EXAMPLES = {"slurm": "{cpus: 4, gpus: 1}", "space": "{lr: {uniform: [0, 1]}}"}


class GridFile(NamedTuple):
    """A grid, where its runs are to be, what they ask of a cluster, and the runs."""

    grid: Grid
    out: str
    slurm: Slurm
    variants: list[Variant]


def read(path: str, changes: Mapping[str, str] | None = None) -> GridFile:
    """The grid in a YAML file; `changes` replace its name or out."""
    data, lines, mistakes = yaml_lines.read(path, as_text=["slurm"])
    builder = Builder(Path(path).stem, Mistakes(lines, mistakes))
    builder.add_all(data)
    return builder.grid_file(path, changes or {})


def from_flags(
    chosen: list[str],
    flags: Mapping[str, list[str]],
    changes: Mapping[str, str] | None = None,
) -> GridFile:
    """The grid of one line: flags with a value or several."""
    if "env" not in flags:
        raise UserError("missing environment; name one or several, as in --env Ant-v4")
    values.notice(chosen)
    builder = Builder("-".join(map(algos.label, chosen)), Mistakes())
    data = {"algo": chosen} | dict(flags)
    builder.add_settings([Entry((key,), x) for key, x in data.items()])
    return builder.grid_file("the grid", changes or {})


class Entry:
    """A setting in a file or a line: its values, and where each is."""

    def __init__(self, place: Place, given: Any) -> None:
        """`lr[rate]` is the setting `lr` with the shorthand `rate`."""
        found = re.fullmatch(r"([^\[\]]+)\[([^\[\]]*)\]", str(place[-1]))
        name = found[1] if found else str(place[-1])
        self.shorthand = found[2] if found else None
        self.key, self.place = name.replace("-", "_"), place
        several = isinstance(given, list) and not values.is_one_value(self.key, given)
        self.values = given if several else [given]
        indices = range(len(self.values))
        self.places = [(*place, i) if several else place for i in indices]


class Builder:
    """Fills a grid from plain data and collects mistakes at their places."""

    def __init__(
        self, name: str, mistakes: Mistakes, kind: str = "grid", own: Sequence[str] = ()
    ) -> None:
        self._kind, self._words = kind, (*SECTIONS, "name", "env", *own)
        self.mistakes = mistakes
        self.grid = Grid(re.sub(r"[^A-Za-z0-9._-]+", "-", name))
        self.algos: list[str] = []
        self._out, self._slurm = "runs", Slurm()
        self._envs: dict[str, Place] = {}
        self._keys: set[str] = set()
        self._faulty: set[str] = set()  # whose values are not known for their mistakes
        self._named: Place = ()

    def add_all(self, data: Mapping[Any, Any]) -> None:
        """The settings and sections of a file."""
        data = self.mapping(data, ())
        values.notice(data.get("algo"))
        entries = [Entry((k,), x) for k, x in data.items() if k not in SECTIONS]
        self.add_settings(entries)
        for section in SECTIONS:  # what is excluded must be there before
            if section in data:
                getattr(self, f"_add_{section}")(data[section], (section,))

    def grid_file(self, where: str, changes: Mapping[str, str]) -> GridFile:
        """What was built; raises with all mistakes."""
        for name, example in ("algo", "sac"), ("env", "Hopper-v4"):
            if name not in self._keys:
                self.mistakes.add((), f"no {name}; name one, as in {name}: {example}")
        self.grid.name = changes.get("name", self.grid.name)
        self._out = changes.get("out", self._out)
        if "name" in changes:
            self.mistakes.add((), spec.fault_in_name(self.grid.name, "the name"))
        variants = [] if self.mistakes else self._variants()
        self.mistakes.raise_any(where)
        return GridFile(self.grid, self._out, self._slurm, variants)

    def _variants(self) -> list[Variant]:
        """Finds what single settings do not show: names, and what cannot act where."""
        try:
            found = self.grid.checked_runs(self._out)
        except UserError as error:
            self.mistakes.add((), str(error))
            return []
        runs = [variant.run for variant in found]
        kinds = {f"{run.algo} {run.env} {run.env_kwargs}": run for run in runs}
        for run in itertools.islice(kinds.values(), TRIED):
            self.mistakes.add(self._envs.get(run.env, ()), compatibility.fault(run))
        return found

    # Settings

    def add_settings(self, entries: Sequence[Entry]) -> None:
        """Into the grid."""
        for entry in entries:  # first what others depend on
            if entry.key == "algo":
                self.algos += values.known_algorithms(entry.values)
            if entry.key == "env":
                names = map(str, entry.values)
                self._envs |= dict(zip(names, entry.places, strict=True))
        for entry in entries:
            self._keys.add(entry.key)
            if entry.key in PLACES:
                self._add_place(entry)
            elif self.are_right([entry]):
                self._try(
                    entry.place, self.grid.add, entry.key, entry.values, entry.shorthand
                )
            else:
                self._faulty.add(entry.key)

    def _add_place(self, entry: Entry) -> None:
        if len(entry.values) != 1 or not isinstance(entry.values[0], str | int):
            self.mistakes.add(entry.place, f"{entry.key} takes one value, a text")
        elif entry.key == "out":
            self._out = str(entry.values[0])
        else:
            self.grid.name = str(entry.values[0])
            first, self._named = self._named, entry.place
            line = self.mistakes.line(first)
            twice = f"the name is already set on line {line}" if first else ""
            fault = spec.fault_in_name(self.grid.name, "the name")
            self.mistakes.add(entry.place, fault or twice)

    def are_right(self, entries: Iterable[Entry]) -> bool:
        """Whether no mistake is found in them."""
        before = len(self.mistakes)
        for entry in entries:
            if fault := self.key_fault(entry.key):
                self.mistakes.add(entry.place, fault)
                continue
            for place, value in zip(entry.places, entry.values, strict=True):
                fault = values.value_fault(entry.key, value, self.algos)
                self.mistakes.add(place, fault)
        return len(self.mistakes) == before

    def key_fault(self, key: str) -> str:
        """That there is no such setting; empty if there is one."""
        return values.key_fault(key, self.algos, self._kind, self._words)

    def _try(self, place: Place, method: Any, *arguments: Any) -> None:
        try:
            method(*arguments)
        except UserError as error:
            self.mistakes.add(place, str(error))

    # Sections

    def _add_zip(self, data: Any, place: Place) -> None:
        for at, entries in self._combinations(data, place):
            lengths = {entry.key: len(entry.values) for entry in entries}
            self.mistakes.add(at, combinations.unequal(lengths))
            if self.are_right(entries):
                self._try(at, self.grid.zip, _settings(entries))
            else:
                self._faulty |= {entry.key for entry in entries}

    def _add_include(self, data: Any, place: Place) -> None:
        for at, entries in self._combinations(data, place):
            if self.are_right(entries):
                self._try(at, self.grid.include, _settings(entries))

    def _add_exclude(self, data: Any, place: Place) -> None:
        left = self._count()
        for at, entries in self._combinations(data, place):
            if not self.are_right(entries):
                continue
            self.grid.exclude(_settings(entries))
            before, left = left, self._count()
            known = not self._faulty & {entry.key for entry in entries}
            if known and left and left == before:
                nothing = "this excludes nothing: no variant has these values"
                self.mistakes.add(at, nothing)

    def _count(self) -> int:
        """Variants so far; 0 where they cannot be made, which is reported later."""
        with contextlib.suppress(UserError):
            return len(self.grid.variants())
        return 0

    def _add_per_env(self, data: Any, place: Place) -> None:
        for env, inner in self.mapping(data, place).items():
            at = (*place, env)
            if env not in self._envs:
                known = f"; it has {', '.join(self._envs)}"
                hint = suggestion(str(env), self._envs) or known
                self.mistakes.add(at, f"the grid has no env {env!r}{hint}")
            entries = self._entries(inner, at)
            for entry in entries:
                if len(entry.values) != 1:
                    only = f"{entry.key} takes one value in per_env"
                    self.mistakes.add(entry.place, only)
            if self.are_right(entries):
                own = {entry.key: entry.values[0] for entry in entries}
                self._try(at, self.grid.override, env, own)

    def _add_slurm(self, data: Any, place: Place) -> None:
        given = self.mapping(data, place)
        for key, value in given.items():
            self.mistakes.add((*place, key), slurm.fault(key, value))
        if not self.mistakes:
            self._slurm = Slurm(**given)

    def _combinations(
        self, data: Any, place: Place
    ) -> Iterator[tuple[Place, list[Entry]]]:
        """Those in a section: a mapping, or a list of them."""
        for i, each in enumerate(data if isinstance(data, list) else [data]):
            at = (*place, i) if isinstance(data, list) else place
            yield at, self._entries(each, at)

    def _entries(self, data: Any, place: Place) -> list[Entry]:
        return [Entry((*place, k), x) for k, x in self.mapping(data, place).items()]

    def mapping(self, data: Any, place: Place) -> dict[str, Any]:
        """The settings in a section."""
        if isinstance(data, Mapping):
            words = {key: value for key, value in data.items() if isinstance(key, str)}
            for key in data.keys() - words.keys():
                self.mistakes.add((*place, key), f"{key!r} is not a setting's name")
            return words
        example = EXAMPLES.get(str(place[0]), "{lr: 0.001, seed: 0}")
        self.mistakes.add(place, f"{place[0]} takes settings, as in {example}")
        return {}


def _settings(entries: Iterable[Entry]) -> dict[str, list]:
    return {entry.key: entry.values for entry in entries}
