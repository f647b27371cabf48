"""Algorithms over a suite of environments (Agarwal et al., 2021, arXiv:2108.13264).

score        the mean of a run's last epochs, from 0 for the worst to 1 for the best
             run in its environment
aggregate    the IQM of all scores; the median or mean of the environments' means
profile      τ ↦ the share of runs with a score above τ, averaged over environments
improvement  P(X > Y) + ½ P(X = Y), averaged over environments
interval     95 % of each over runs drawn anew within every environment
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxrl.errors import UserError
from jaxrl.runs.reading import Record
from jaxrl.show import curves, statistics
from jaxrl.show.curves import View

LAST = 5  # epochs over which a run's score is averaged
MOST = 12  # groups, whose pairs a picture can show
LEVELS = np.linspace(0, 1, 101)  # of the profiles

Scores = Sequence[np.ndarray]  # the runs of each environment


class Estimate(NamedTuple):
    """A number, or one for each level, between the ends of its interval.

    They are NaN where every run is the only one of its kind: drawn anew it stays.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Suite(NamedTuple):
    """The scores of algorithms, or whatever else runs are grouped by."""

    environments: list[str]
    scores: dict[str, Scores]

    @property
    def runs(self) -> int:
        return sum(len(own) for scores in self.scores.values() for own in scores)


def gathered(runs: Sequence[Record], view: View) -> Suite:
    """Every group of runs in every environment; refuses gaps."""
    curves.refuse_unknown_columns(runs, view.ys)
    values = {run.path: _last(run, view.ys[0]) for run in runs}
    names, renamed = list(curves.parted(runs, _env)), curves.renamed(runs, view)
    if len(renamed) > MOST:
        raise UserError(
            f"--suite compares up to {MOST} groups, but there are {len(renamed)}; "
            "choose with --group, --select, --exclude"
        )
    lows, highs = _extremes(runs, values)
    scores: dict[str, Scores] = {}
    for label, group in curves.parted(
        runs, lambda run: curves.label(run, view)
    ).items():
        own = curves.parted(group, _env)
        if gaps := [env for env in names if env not in own]:
            raise UserError(
                f"{label} has no run in {', '.join(gaps)}; a suite needs every "
                "curve in every environment: choose with --select, --exclude, --group"
            )
        scores[renamed[label]] = [
            np.array([values[run.path] - lows[env] for run in own[env]])
            / (highs[env] - lows[env])
            for env in names
        ]
    return Suite(names, scores)


def _env(run: Record) -> str:
    return str(run.config["env"])


def _last(run: Record, y: str) -> float:
    values = curves.column(run, y)
    known = values[np.isfinite(values)]
    if not len(known):
        raise UserError(f"{run.path} has no value of {y} yet")
    return float(known[-LAST:].mean())


def _extremes(
    runs: Sequence[Record], values: dict[Path, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """The worst and the best run of each environment."""
    found = {
        env: [values[run.path] for run in own]
        for env, own in curves.parted(runs, _env).items()
    }
    if alike := [env for env, own in found.items() if min(own) == max(own)]:
        raise UserError(
            f"all runs in {', '.join(alike)} are equally good, so they cannot be "
            "compared; give more runs, or leave it out with --exclude env=..."
        )
    lows = {env: min(own) for env, own in found.items()}
    return lows, {env: max(own) for env, own in found.items()}


# Estimates; `drawn` are scores [draws, runs] for each environment


def _iqm(drawn: Scores) -> np.ndarray:
    return statistics.iqm(np.concatenate(drawn, axis=1).T)  # of [all runs, draws]


def _median(drawn: Scores) -> np.ndarray:
    return np.median([own.mean(axis=1) for own in drawn], axis=0)


def _mean(drawn: Scores) -> np.ndarray:
    return np.mean([own.mean(axis=1) for own in drawn], axis=0)


AGGREGATES: dict[str, statistics.Of] = {"IQM": _iqm, "median": _median, "mean": _mean}


def aggregates(scores: Scores) -> dict[str, Estimate]:
    return {name: _with_interval(of, scores) for name, of in AGGREGATES.items()}


def profile(scores: Scores) -> Estimate:
    """At each of `LEVELS`."""

    def of(drawn: Scores) -> np.ndarray:
        above = [[(own > level).mean(axis=1) for level in LEVELS] for own in drawn]
        return np.mean(above, axis=0).T  # [draws, levels]

    return _with_interval(of, scores)


def improvement(ours: Scores, theirs: Scores) -> Estimate:
    """The probability that a run of ours beats one of theirs."""

    def of(drawn: Scores) -> np.ndarray:
        x, y = drawn[: len(ours)], drawn[len(ours) :]
        return np.mean([_wins(a, b) for a, b in zip(x, y, strict=True)], axis=0)

    return _with_interval(of, [*ours, *theirs])


def _wins(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    pairs = np.sign(x[:, :, None] - y[:, None, :])  # [draws, runs of x, runs of y]
    return (1 + pairs.mean(axis=(1, 2))) / 2


def pairs(suite: Suite) -> dict[tuple[str, str], Estimate]:
    """The improvement of each on each, the one that is ahead first."""
    found = {}
    for ours, theirs in itertools.combinations(suite.scores, 2):
        estimate = improvement(suite.scores[ours], suite.scores[theirs])
        if estimate.value < 0.5:
            ours, theirs = theirs, ours
            estimate = improvement(suite.scores[ours], suite.scores[theirs])
        found[ours, theirs] = estimate
    return found


def _with_interval(of: statistics.Of, scores: Scores) -> Estimate:
    value = of([own[None] for own in scores])[0]
    if all(len(own) == 1 for own in scores):
        unknown = np.full_like(value, np.nan)
        return Estimate(value, unknown, unknown)
    return Estimate(value, *statistics.stratified(scores, of))
