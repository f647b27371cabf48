"""A grid in words, as Spinning Up's ExperimentGrid prints it."""

import json
from collections.abc import Iterable, Sequence

from jaxrl.experiments.combinations import Axis, Settings

WIDTH = 80
KEY = 40  # columns of a setting's name and its shorthand


def grid(
    name: str, groups: Iterable[Sequence[Axis]], variants: Sequence[Settings]
) -> str:
    """Its settings, with their shorthands and values, and the number of variants."""
    without_seed = {
        json.dumps({**each, "seed": 0}, sort_keys=True, default=repr)
        for each in variants
    }
    lines = ["=" * WIDTH, f"Grid [{name}] runs over parameters:", ""]
    for group in groups:
        together = len(group) > 1
        for axis in group:
            lines += _axis(axis, "  (zipped)" if together else "")
    lines += [
        f" Variants, counting seeds:     {len(variants):>6}",
        f" Variants, not counting seeds: {len(without_seed):>6}",
        "=" * WIDTH,
    ]
    return "\n".join(lines)


def _axis(axis: Axis, note: str) -> list[str]:
    label = f"[{axis.label}]" if axis.label else ""
    head = f" {axis.key:{KEY}}{label:12}{note}".rstrip()
    return [head, "", *(f"    {value}" for value in axis.values), ""]
