"""A grid of runs: every combination of the values that its settings take.

    grid = Grid("sac-lr").add("algo", "sac").add("env", ["Hopper-v4", "Walker2d-v4"])
    grid.add("seed", [0, 1, 2]).add("lr", [1e-3, 3e-4])
    grid.run(jobs=4)

Order, nesting and names are Spinning Up's: the setting added first varies slowest,
`a:b` is the part `b` of the mapping `a`, and a variant is named after the settings
that have several values, the seed left out.
"""

import contextlib
import functools
import itertools
import json
import math
import re
import typing
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from jaxrl.algos import NAMES
from jaxrl.errors import UserError
from jaxrl.experiments.variant import Variant
from jaxrl.runs import spec
from jaxrl.settings import values as setting_values
from jaxrl.yaml_lines import parsed

if typing.TYPE_CHECKING:
    from jaxrl.experiments.runner import Summary
    from jaxrl.experiments.slurm import Slurm

Settings = dict[str, Any]
MOST = 10_000  # variants; three settings of a thousand values each would take for ever


class Axis(NamedTuple):
    """A setting, the values it takes, and how it stands in a name."""

    key: str
    values: tuple[Any, ...]
    label: str
    in_name: bool = False


class Grid:
    """Settings with the values that they take; most methods return the grid itself."""

    def __init__(self, name: str = "") -> None:
        if not isinstance(name, str):
            raise UserError(f"the name of a grid is a string, not {name!r}")
        self.name = name
        self._groups: list[list[Axis]] = []
        self._included: list[dict[str, list]] = []
        self._excluded: list[dict[str, list]] = []
        self._overrides: dict[str, Settings] = {}

    # What is in it

    def add(
        self,
        key: str,
        values: Any,
        shorthand: str | None = None,
        in_name: bool = False,
    ) -> Self:
        """A setting with one value or a list of them."""
        self._groups.append([self._axis(key, values, shorthand, in_name)])
        return self

    def zip(self, values: Mapping[str, list]) -> Self:
        """Settings that move together: the first values of all, the second, ..."""
        group = [self._axis(key, several) for key, several in values.items()]
        lengths = {axis.key: len(axis.values) for axis in group}
        if len(set(lengths.values())) > 1:
            counts = " and ".join(f"{key} has {n}" for key, n in lengths.items())
            raise UserError(
                f"settings zipped together have equally many values: {counts}"
            )
        self._groups.append(group)
        return self

    def include(self, settings: Mapping[str, Any]) -> Self:
        """Further combinations; what is not named takes all its values in the grid."""
        self._included.append({k: listed(k, x) for k, x in settings.items()})
        return self

    def exclude(self, settings: Mapping[str, Any]) -> Self:
        """Leaves out the combinations that have these values, or one of a list."""
        self._excluded.append({k: listed(k, x) for k, x in settings.items()})
        return self

    def override(self, env: str, settings: Mapping[str, Any]) -> Self:
        """Other values in the runs of one environment."""
        own = {key: converted(key, value) for key, value in settings.items()}
        if fixed := [key for key in ("env", "algo") if key in own]:
            raise UserError(f"{fixed[0]} cannot be another in one environment")
        self._overrides.setdefault(env, {}).update(own)
        return self

    def _axis(
        self, key: str, values: Any, shorthand: str | None = None, in_name: bool = False
    ) -> Axis:
        if not isinstance(key, str) or not isinstance(shorthand, str | None):
            raise UserError(
                f"a key and a shorthand are strings, not {key!r}, {shorthand!r}"
            )
        if key in {axis.key for group in self._groups for axis in group}:
            raise UserError(f"{key} is in the grid already")
        found = listed(key, values)
        twice = _twice(found)
        if twice or not found:
            what = f"the value {twice[0]!r} twice" if twice else "no value"
            raise UserError(f"{key} has {what}")
        label = default_shorthand(key) if shorthand is None else shorthand
        return Axis(key, tuple(found), label, in_name)

    # What follows from it

    def variants(self) -> list[Settings]:
        """All combinations, each as nested settings; the first added vary slowest."""
        self._refuse_too_many()
        plain = [self._finished(flat) for flat in _product(self._groups)]
        kept = [each for each in plain if not self._is_excluded(each)]
        for extra in self._included:
            kept += [self._finished(flat) for flat in _product(self._around(extra))]
        return list({_canonical(variant): variant for variant in kept}.values())

    def _refuse_too_many(self) -> None:
        """Counts the combinations without making them."""
        every = [self._groups, *map(self._around, self._included)]
        count = sum(math.prod(map(_length, groups)) for groups in every)
        if count > MOST:
            raise UserError(
                f"there are {count:,} combinations, but {MOST:,} at most can be run; "
                "give the settings fewer values, or zip those that move together"
            )

    def _around(self, extra: Mapping[str, list]) -> list[list[Axis]]:
        """The values of an included combination, and what it does not name."""
        rest = [[axis for axis in g if axis.key not in extra] for g in self._groups]
        own = [[Axis(key, tuple(values), "")] for key, values in extra.items()]
        return [group for group in rest if group] + own

    def _finished(self, flat: Settings) -> Settings:
        own = self._overrides.get(str(flat.get("env")), {})
        return nested(flat | own)

    def _is_excluded(self, variant: Settings) -> bool:
        return any(matches(variant, condition) for condition in self._excluded)

    def variant_name(self, variant: Mapping[str, Any]) -> str:
        """The grid's name and the settings that tell this variant from others."""
        return self._names([variant])[0]

    def _names(self, variants: Iterable[Mapping[str, Any]]) -> list[str]:
        naming = self._naming  # once, for it goes through all values
        return [self._name(variant, naming) for variant in variants]

    def _name(self, variant: Mapping[str, Any], naming: Iterable[Axis]) -> str:
        name = self.name
        for axis in naming:
            value = _part(variant, axis.key)
            if value is None:  # of another combination
                continue
            switch = all(isinstance(each, bool) for each in axis.values)
            if switch and value is True:
                name += f"_{_clean(axis.label)}"
            elif not switch:
                name += f"_{_clean(axis.label)}{_clean(value)}"
        return name.lstrip("_")

    @property
    def _naming(self) -> list[Axis]:
        """The settings in a variant's name, with all values they take."""
        axes = {axis.key: axis for group in self._groups for axis in group}
        found = {key: list(axis.values) for key, axis in axes.items()}
        for key, values in itertools.chain(*(x.items() for x in self._included)):
            given = found.setdefault(key, [None])  # None: absent elsewhere
            given += [value for value in values if value not in given]
        several = [
            axes.get(key, Axis(key, (), default_shorthand(key)))._replace(
                values=tuple(value for value in values if value is not None)
            )
            for key, values in found.items()
            if len(values) > 1 or axes[key].in_name
        ]
        return [axis for axis in several if axis.key != "seed"]

    # What is done with it

    def collisions(self) -> list[str]:
        """Pairs of variants that would have one name."""
        first: dict[str, Settings] = {}
        found = {}
        variants = self.variants()
        for variant, name in zip(variants, self._names(variants), strict=True):
            other = first.setdefault(name, variant)
            one, two = ({**x, "seed": 0} for x in (other, variant))
            differing = [key for key in one | two if one.get(key) != two.get(key)]
            if differing:
                keys = " and ".join(differing)
                found[name] = (
                    f"two variants that differ in {keys} would both be named {name!r}; "
                    f"give a shorthand of its own, as in '{differing[0]}[xyz]'"
                )
        return list(found.values())

    def runs(self, out: str = "runs") -> list[Variant]:
        """All variants as runs under `out`/`name`; refuses all mistakes at once."""
        if fault := fault_of_name(self.name):
            raise UserError(fault)
        faults = dict.fromkeys(self.collisions())
        found = []
        variants = self.variants()
        for settings, name in zip(variants, self._names(variants), strict=True):
            try:
                found.append(Variant.of(settings, name, f"{out}/{self.name}"))
            except UserError as error:
                faults[str(error)] = None
        if faults or not found:
            raise UserError("; ".join(faults) or "there is no variant in the grid")
        return found

    def run(
        self,
        out: str = "runs",
        jobs: int = 0,
        slurm: "Slurm | None" = None,
        **options: Any,
    ) -> "Summary":
        """Runs all that is not finished yet, `jobs` at a time; see `runner.Options`.

        With a `slurm.Slurm`, as jobs of a cluster.
        """
        from jaxrl.experiments import runner
        from jaxrl.experiments import slurm as cluster

        own = runner.Options(out=out, jobs=jobs, **options)
        if slurm is None:
            return cluster.run_here(self.name, self.runs(out), own)
        return cluster.run(self.name, self.runs(out), own, slurm)


# Values


def fault_of_name(name: str) -> str:
    """Why it cannot name a directory; empty if it can."""
    if spec.NAME.fullmatch(name):
        return ""
    rule = "letters, digits, '.', '_' and '-', and begin with a letter or a digit"
    return f"the name is {name!r}, but must be {rule}"


def _twice(values: list) -> list:
    """Those that come more than once."""
    known = [repr(value) for value in values]  # 1, 1.0 and True are three
    counts = Counter(known)
    twice = {word: x for word, x in zip(known, values, strict=True) if counts[word] > 1}
    return list(twice.values())


@functools.cache
def hints() -> dict[str, Any]:
    """The type of every setting; one name means the same in all algorithms."""
    every = [spec.known_settings(algo) for algo in NAMES]
    return {name: x.hint for known in every for name, x in known.items()}


def listed(key: str, values: Any) -> list[Any]:
    """The values of a setting, converted; one that is itself a list stays one."""
    several = isinstance(values, list) and not is_one_value(key, values)
    return [converted(key, value) for value in (values if several else [values])]


def is_one_value(key: str, values: list) -> bool:
    """Whether a list is a single value, as the widths in `hidden: [64, 64]`."""
    is_tuple = typing.get_origin(hints().get(key)) is tuple
    numbers = [isinstance(each, int | float) for each in values]
    return is_tuple and bool(numbers) and all(numbers)


def converted(key: str, value: Any) -> Any:
    """By the type of the setting; text for a part of a mapping is read as YAML."""
    if ":" in key and isinstance(value, str):
        with contextlib.suppress(ValueError):
            return parsed(value)
        return value
    hint = hints().get(key)
    return value if hint is None else setting_values.converted(value, hint)


def default_shorthand(key: str) -> str:
    """The first three characters of each part, without signs."""
    parts = [re.sub(r"[^A-Za-z0-9]", "", part[:3]) for part in key.split(":")]
    return "-".join(parts)


def _clean(value: Any) -> str:
    """`value` as a part of a file's name."""
    if isinstance(value, list | tuple):
        return "-".join(map(_clean, value))
    text = str(getattr(value, "__name__", value))
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())


# Combinations


def _length(group: list[Axis]) -> int:
    return len(group[0].values) if group else 0


def _product(groups: Iterable[list[Axis]]) -> list[Settings]:
    rows = [
        [
            {axis.key: value for axis, value in zip(group, row, strict=True)}
            for row in zip(*(axis.values for axis in group), strict=True)
        ]
        for group in groups
    ]
    return [
        functools.reduce(lambda one, two: one | two, combination, {})
        for combination in itertools.product(*rows)
    ]


def nested(flat: Settings) -> Settings:
    """`a:b` as the part `b` of the mapping `a`."""
    whole: Settings = {}
    for key, value in flat.items():
        *path, last = key.split(":")
        inner = whole
        for part in path:
            mapping = inner.get(part, {})
            if not isinstance(mapping, dict):
                raise UserError(
                    f"{part} is {mapping!r}, so it can have no part {key!r}"
                )
            inner[part] = dict(mapping)  # a mapping that other variants share
            inner = inner[part]
        if last in inner and path == []:
            raise UserError(f"{key} is given whole after one of its parts")
        inner[last] = value
    return whole


def _part(variant: Mapping[str, Any], key: str) -> Any:
    found: Any = variant
    for part in key.split(":"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def matches(variant: Settings, condition: Mapping[str, list]) -> bool:
    """Whether each named setting has one of the values."""
    return all(_part(variant, key) in values for key, values in condition.items())


def _canonical(variant: Settings) -> str:
    return json.dumps(variant, sort_keys=True, default=repr)
