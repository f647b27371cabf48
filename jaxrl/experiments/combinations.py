"""Combinations of values, and the names that tell them apart, as in Spinning Up."""

import functools
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jaxrl.algos import label
from jaxrl.errors import UserError

Settings = dict[str, Any]
LONG = 10  # characters of a number that is shortened in names
DIGITS = 6  # of a shortened one, if enough
LONGEST = 200  # characters of a name; file systems take 255 bytes
MOST = 10_000  # variants; three settings of a thousand values each would never end


class Axis(NamedTuple):
    """A setting, the values it takes, and its short form in names."""

    key: str
    values: tuple[Any, ...]
    label: str
    in_name: bool = False


def axis(
    key: str, values: list[Any], shorthand: str | None = None, in_name: bool = False
) -> Axis:
    """Of converted values; raises where there are none or one comes twice."""
    repeated = _repeated(values)
    if repeated or not values:
        what = f"the value {repeated[0]!r} twice" if repeated else "no value"
        raise UserError(f"{key} has {what}")
    label = default_shorthand(key) if shorthand is None else shorthand
    return Axis(key, tuple(values), label, in_name)


def _repeated(values: list) -> list:
    words = [repr(value) for value in values]  # 1, 1.0 and True are three
    counts = Counter(words)
    return [x for word, x in zip(words, values, strict=True) if counts[word] > 1]


def unequal(lengths: Mapping[str, int]) -> str:
    """That settings zipped together have different lengths; empty if they do not."""
    if len(set(lengths.values())) <= 1:
        return ""
    counts = " and ".join(f"{key} has {n}" for key, n in lengths.items())
    return f"settings zipped together have equally many values: {counts}"


def check_count(every: Iterable[list[list[Axis]]]) -> None:
    """Raises where there are too many combinations, without making them."""
    lengths = ([len(group[0].values) if group else 0 for group in g] for g in every)
    count = sum(map(math.prod, lengths))
    if count > MOST:
        raise UserError(
            f"there are {count:,} combinations, but {MOST:,} at most can be run; "
            "give the settings fewer values, or zip those that move together"
        )


def product(groups: Iterable[list[Axis]]) -> list[Settings]:
    """All combinations of the groups; the first varies slowest."""
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


def part(variant: Mapping[str, Any], key: str) -> Any:
    """The value at `a:b` of nested settings; None where there is none."""
    found: Any = variant
    for name in key.split(":"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def matches(variant: Settings, condition: Mapping[str, list]) -> bool:
    """Whether each named setting has one of the values."""
    return all(part(variant, key) in values for key, values in condition.items())


def unique(variants: Iterable[Settings]) -> list[Settings]:
    """Without those that are equal to an earlier one."""
    words = {json.dumps(x, sort_keys=True, default=repr): x for x in variants}
    return list(words.values())


# Names


def default_shorthand(key: str) -> str:
    """The first three characters of each part, letters and digits only."""
    parts = [re.sub(r"[^A-Za-z0-9]", "", part[:3]) for part in key.split(":")]
    return "-".join(parts)


def naming_axes(
    axes: Mapping[str, Axis], included: Iterable[Mapping[str, list]]
) -> list[Axis]:
    """The settings in a variant's name, with all values they take: not the seed."""
    found = {key: list(axis.values) for key, axis in axes.items()}
    for key, values in itertools.chain(*(x.items() for x in included)):
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


def variant_name(start: str, variant: Mapping[str, Any], naming: Iterable[Axis]) -> str:
    """The name that begins with `start` and tells the settings in `naming`."""
    name = start
    for axis in naming:
        value = part(variant, axis.key)
        if value is None:  # of another combination
            continue
        switch = all(isinstance(each, bool) for each in axis.values)
        if switch and value is True:
            name += f"_{_clean(axis.label)}"
        elif not switch:
            name += f"_{_clean(axis.label)}{_clean(_shown(value, axis.values))}"
    return name.lstrip("_")


def _shown(value: Any, values: Iterable[Any]) -> Any:
    """A number in few digits, if that tells it from the others; the rest as it is."""
    if not isinstance(value, float):
        return value
    text = repr(value)
    if len(text) > LONG:  # as those of np.linspace
        others = {each for each in values if isinstance(each, float)} - {value}
        for digits in range(DIGITS, 18):
            text = f"{value:.{digits}g}"
            if text not in {f"{each:.{digits}g}" for each in others}:
                break
    return text.replace("e+", "e")  # `+` would be written as `-`


def _clean(value: Any) -> str:
    """`value` as a part of a file's name."""
    if isinstance(value, list | tuple):
        return "-".join(map(_clean, value))
    text = label(str(getattr(value, "__name__", value)))
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())


def collisions(variants: Iterable[Settings], names: Iterable[str]) -> list[str]:
    """Pairs of variants that would have one name, in a sentence each."""
    first: dict[str, Settings] = {}
    found = {}
    for variant, name in zip(variants, names, strict=True):
        other = first.setdefault(name, variant)
        one, two = ({**x, "seed": 0} for x in (other, variant))
        differing = [key for key in one | two if one.get(key) != two.get(key)]
        if differing:
            keys = " and ".join(differing)
            found[name] = (
                f"two variants that differ in {keys} would both be named {name!r}; "
                f"give a shorthand, as in '{differing[0]}[xyz]'"
            )
    return list(found.values())
