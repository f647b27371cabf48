"""The columns of progress.csv: Spinning Up's, in its order, and ours after them."""

from collections.abc import Mapping
from typing import Any

Row = dict[str, float | int | None]

# Those that an algorithm lacks are left out.
BEFORE = ("VVals",)
AFTER = (
    *("QVals", "Q1Vals", "Q2Vals", "LogPi", "LossPi", "LossV", "LossQ"),
    *("DeltaLossPi", "DeltaLossV", "Entropy", "KL", "ClipFrac", "StopIter"),
    "BacktrackIters",
)
STEPS = "TotalEnvInteracts"
RETURNS = ("AverageTestEpRet", "AverageEpRet")  # the first one that a run has counts
CLOCKS = ("Time", "StepsPerSecond", "EnvSeconds", "ActSeconds", "UpdateSeconds")
RESERVED = {"Epoch", "EpRet", "EpLen", "TestEpRet", "TestEpLen", STEPS, *CLOCKS}
"""Which no algorithm may use for a metric."""


def columns(
    metrics: Mapping[str, Any], rank: int, tests: int
) -> tuple[list[str], set[str]]:
    """The names in order, and those that have four columns each.

    A metric with more than `rank` dimensions has one value per sample.
    """
    spread = {name for name, x in metrics.items() if len(x.shape) > rank}
    spread |= {"EpRet", "TestEpRet"}
    lengths = ["TestEpRet", "EpLen", "TestEpLen"] if tests else ["EpLen"]
    names = ["Epoch", "EpRet", *lengths, *(n for n in BEFORE if n in metrics)]
    names += [STEPS, *(n for n in AFTER if n in metrics)]
    names += sorted(n for n in metrics if n not in (*names, "LearningRate"))
    return [*names, "LearningRate", *CLOCKS], spread


def columns_of(name: str, spread: bool) -> list[str]:
    """The columns of a name: its mean, or four of its distribution."""
    if not spread:
        return [name]
    group, slash, last = name.rpartition("/")
    return [f"{group}{slash}{x}{last}" for x in ("Average", "Std", "Max", "Min")]


def return_columns(tests: int) -> list[str]:
    """The columns that rank runs, the most important one first."""
    return list(RETURNS if tests else RETURNS[1:])
