"""A grid of runs: every combination of the values that its settings take.

    grid = Grid("sac-lr").add("algo", "sac").add("env", ["Hopper-v4", "Walker2d-v4"])
    grid.add("seed", [0, 1, 2]).add("lr", [1e-3, 3e-4])
    grid.run(jobs=4)

Order, nesting and names are Spinning Up's: the setting added first varies slowest,
`a:b` is the part `b` of the mapping `a`, and a variant is named after the settings
that have several values, the seed left out.
"""

import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from jaxrl.errors import UserError, about_arguments
from jaxrl.experiments import combinations, functions, values
from jaxrl.experiments.combinations import Axis, Settings
from jaxrl.experiments.variant import Variant
from jaxrl.runs import spec

if typing.TYPE_CHECKING:
    from jaxrl.experiments.runner import Summary
    from jaxrl.experiments.slurm import Slurm


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
        self._filled_by: list[tuple[str, tuple]] = []  # of the methods that fill it
        self._converts = True  # values by the types of jaxrl's settings

    # Filling it

    def add(
        self,
        key: str,
        values: Any,
        shorthand: str | None = None,
        in_name: bool = False,
    ) -> Self:
        """A setting with one value or a list of them; an array is a list too."""
        self._groups.append([self._axis(key, values, shorthand, in_name)])
        self._filled_by.append(("add", (key, values, shorthand, in_name)))
        return self

    def zip(self, values: Mapping[str, Any]) -> Self:
        """Settings that move together: the first values of all, the second, ..."""
        group = [self._axis(key, several) for key, several in values.items()]
        lengths = {axis.key: len(axis.values) for axis in group}
        if fault := combinations.unequal(lengths):
            raise UserError(fault)
        self._groups.append(group)
        self._filled_by.append(("zip", (values,)))
        return self

    def include(self, settings: Mapping[str, Any]) -> Self:
        """Further combinations; what is not named takes all its values in the grid."""
        self._included.append({k: self._listed(k, x) for k, x in settings.items()})
        self._filled_by.append(("include", (settings,)))
        return self

    def exclude(self, settings: Mapping[str, Any]) -> Self:
        """Leaves out the combinations that have these values, or one of a list."""
        self._excluded.append({k: self._listed(k, x) for k, x in settings.items()})
        self._filled_by.append(("exclude", (settings,)))
        return self

    def override(self, env: str, settings: Mapping[str, Any]) -> Self:
        """Other values in the runs of one environment."""
        convert = values.converted if self._converts else values.as_given
        own = {key: convert(key, value) for key, value in settings.items()}
        if fixed := [key for key in ("env", "algo") if key in own]:
            raise UserError(f"{fixed[0]} cannot be another in one environment")
        self._overrides.setdefault(env, {}).update(own)
        self._filled_by.append(("override", (env, settings)))
        return self

    def _axis(
        self, key: str, given: Any, shorthand: str | None = None, in_name: bool = False
    ) -> Axis:
        if not isinstance(key, str) or not isinstance(shorthand, str | None):
            raise UserError(
                f"a key and a shorthand are strings, not {key!r}, {shorthand!r}"
            )
        if key in self._axes:
            raise UserError(f"{key} is in the grid already")
        return combinations.axis(key, self._listed(key, given), shorthand, in_name)

    def _listed(self, key: str, given: Any) -> list[Any]:
        return values.listed(key, given) if self._converts else values.each(given)

    @property
    def _axes(self) -> dict[str, Axis]:
        return {axis.key: axis for group in self._groups for axis in group}

    # Its variants

    def variants(self) -> list[Settings]:
        """All combinations, each as nested settings; the first added vary slowest."""
        included = [self._around(extra) for extra in self._included]
        combinations.check_count([self._groups, *included])
        plain = map(self._nested, combinations.product(self._groups))
        kept = [each for each in plain if not self._is_excluded(each)]
        for groups in included:
            kept += map(self._nested, combinations.product(groups))
        return combinations.unique(kept)

    def _around(self, extra: Mapping[str, list]) -> list[list[Axis]]:
        """The values of an included combination, and what it does not name."""
        rest = [[axis for axis in g if axis.key not in extra] for g in self._groups]
        own = [[Axis(key, tuple(several), "")] for key, several in extra.items()]
        return [group for group in rest if group] + own

    def _nested(self, flat: Settings) -> Settings:
        own = self._overrides.get(str(flat.get("env")), {})
        return combinations.nested(flat | own)

    def _is_excluded(self, variant: Settings) -> bool:
        return any(combinations.matches(variant, each) for each in self._excluded)

    def variant_name(self, variant: Mapping[str, Any]) -> str:
        """The grid's name and the settings that tell this variant from others."""
        return self._names([variant])[0]

    def _names(self, variants: Iterable[Mapping[str, Any]]) -> list[str]:
        naming = combinations.naming_axes(self._axes, self._included)
        return [combinations.variant_name(self.name, x, naming) for x in variants]

    # Its runs

    def faults(self) -> list[str]:
        """What is wrong with its settings and their values."""
        given = [(axis.key, axis.values) for axis in self._axes.values()]
        for condition in (*self._included, *self._excluded):
            given += [(key, tuple(several)) for key, several in condition.items()]
        for own in self._overrides.values():
            given += [(key, (value,)) for key, value in own.items()]
        every = [value for key, several in given if key == "algo" for value in several]
        algos = values.known_algorithms(every)
        found = (values.fault(key, x, algos) for key, several in given for x in several)
        return [sentence for sentence in dict.fromkeys(found) if sentence]

    def runs(self, out: str = "runs") -> list[Variant]:
        """All variants as runs under `out`/`name`; reports all mistakes at once."""
        faults = self.faults()
        if wrong := spec.fault_in_name(self.name, "the name"):
            faults.insert(0, wrong)
        if faults:
            raise UserError("; ".join(faults))
        return self.checked_runs(out)

    def checked_runs(self, out: str) -> list[Variant]:
        """The same, where every setting and the name are known to be right."""
        variants = self.variants()
        names = self._names(variants)
        faults = dict.fromkeys(combinations.collisions(variants, names))
        found = []
        for settings, name in zip(variants, names, strict=True):
            try:
                found.append(
                    Variant.from_settings(settings, name, f"{out}/{self.name}")
                )
            except UserError as error:
                faults[str(error)] = None
        if faults or not found:
            raise UserError("; ".join(faults) or "there is no variant in the grid")
        return found

    def print(self) -> None:
        """Prints the settings, their values and how many variants there are."""
        from jaxrl.experiments import described

        # Without an algorithm, it is a grid of calls of a function.
        shown = self if "algo" in self._axes else self.with_values_as_given()
        print(described.grid(self.name, shown._groups, shown.variants()))

    @about_arguments()
    def run(
        self,
        fn: Callable[..., Any] | str | None = None,
        out: str = "runs",
        jobs: int = 0,
        slurm: "Slurm | None" = None,
        **options: Any,
    ) -> "Summary":
        """Runs all that is not finished yet, `jobs` at a time; see `runner.Options`.

        With a function, or its name as "module:function", each variant is a call
        `fn(directory=..., **settings)` in its own process, for any settings.
        With a `slurm.Slurm`, runs are jobs of a cluster.
        """
        from jaxrl.experiments import function_variant, runner
        from jaxrl.experiments import slurm as cluster

        functions.refuse_while_importing()
        if fn is not None and slurm is not None:
            raise UserError("a function runs on this machine; leave out slurm")
        own = runner.Options(out=out, jobs=jobs, **options)
        if fn is not None:
            calls = function_variant.from_grid(self, fn, out)
            return runner.run(self.name, calls, own)
        if slurm is None:
            return cluster.run_here(self.name, self.runs(out), own)
        return cluster.run(self.name, self.runs(out), own, slurm)

    def with_values_as_given(self) -> "Grid":
        """Filled again: to another's function, jaxrl's settings mean nothing."""
        other = Grid(self.name)
        other._converts = False
        for method, arguments in self._filled_by:
            getattr(other, method)(*arguments)
        return other
