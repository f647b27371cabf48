"""Measured numbers in the sentences of README and docs, made from the results."""

import statistics
from collections.abc import Iterable

import fused
import speed
import suite

LEVEL = 0.05  # ratios so near 1 are called level


def against_sb3() -> str:
    """The range over the cases of speed.py of how many times SB3's speed jaxrl has."""
    ratios = []
    for case in speed.CASES:
        sides, _ = speed.measured(case, 1)
        if case.measure == "speed" and {"ours", "sb3"} <= sides.keys():
            ratios.append(speed.ratio(sides["ours"], sides["sb3"], case))
    return between(ratios, ".1f")


def of_the_ceiling() -> str:
    """The range over the off-policy cases on one core, in percent."""
    shares = [speed.measured(case, 1)[1] for case in speed.CASES if case.mflop]
    return between((statistics.median(x["ours"]) for x in shares if x), ".0f")


def against_rejax() -> str:
    """How many cases are faster, level or slower."""
    counts = dict.fromkeys(("faster", "level", "slower"), 0)
    for ratio in fused.ratios(fused.CASES).values():
        near = abs(ratio - 1) <= LEVEL
        counts["level" if near else "faster" if ratio > 1 else "slower"] += 1
    total = sum(counts.values())
    found = (f"{word} in {n}" for word, n in counts.items() if n)
    return listed(found) + f" of {total} cases"


def seeds() -> str:
    """How many seeds of each algorithm the suite has, fewest to most in a cell."""
    by_count: dict[str, list[str]] = {}
    for algo in suite.ALGOS:
        counts = [len(cell.scores) for cell in suite.cells() if cell.algo == algo]
        if counts:
            by_count.setdefault(between(counts, "d"), []).append(algo.upper())
    return ", ".join(f"{count} of {listed(names)}" for count, names in by_count.items())


def between(numbers: Iterable[float], form: str) -> str:
    """The least and the greatest, or the one that they are."""
    numbers = sorted(numbers)
    ends = dict.fromkeys((f"{numbers[0]:{form}}", f"{numbers[-1]:{form}}"))
    return " to ".join(ends)


def listed(words: Iterable[str]) -> str:
    """In a sentence: a, b and c."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


SENTENCES = {
    "against-sb3": against_sb3,
    "of-the-ceiling": of_the_ceiling,
    "against-rejax": against_rejax,
    "seeds": seeds,
}
