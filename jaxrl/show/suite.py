"""Algorithms over a suite of environments (Agarwal et al., 2021, arXiv:2108.13264).

score        the mean of a run's last epochs, from 0 for the worst to 1 for the best
             run in its environment
aggregate    the IQM of all scores; the median or mean of the environments' means
profile      τ ↦ the share of runs with a score above τ, averaged over environments
improvement  P(X > Y) + ½ P(X = Y), averaged over environments
interval     95 % of each over runs redrawn within every environment
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxrl.errors import UserError
from jaxrl.runs.reading import LAST, Record
from jaxrl.show import curves, statistics
from jaxrl.show.curves import View
from jaxrl.show.selection import group_by

MAX_GROUPS = 12  # whose pairs a picture can show
LEVELS = np.linspace(0, 1, 101)  # of the profiles

Scores = Sequence[np.ndarray]  # the runs of each environment


class ScoreInterval(NamedTuple):
    """A number, or one for each level, and the ends of its 95 % interval.

    The ends are NaN where every sample is a single run, which has no interval.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Suite(NamedTuple):
    """The scores of each group of runs, such as an algorithm."""

    environments: list[str]
    scores: dict[str, Scores]

    @property
    def runs(self) -> int:
        return sum(len(own) for scores in self.scores.values() for own in scores)


def collect_scores(runs: Sequence[Record], view: View) -> Suite:
    """Of every group in every environment; raises where a group has no run in one."""
    curves.check_columns(runs, view.ys)
    values = {run.path: final_return(run, view.ys[0]) for run in runs}
    names, labels = list(group_by(runs, _env)), curves.legend_names(runs, view)
    if len(labels) > MAX_GROUPS:
        raise UserError(
            f"--suite compares up to {MAX_GROUPS} groups, but there are {len(labels)}; "
            "choose with --group, --select, --exclude"
        )
    lows, highs = _extremes(runs, values)
    scores: dict[str, Scores] = {}
    groups = group_by(runs, lambda run: curves.curve_label(run, view))
    for label, group in groups.items():
        own = group_by(group, _env)
        if gaps := [env for env in names if env not in own]:
            raise UserError(
                f"{label} has no run in {', '.join(gaps)}; a suite needs every "
                "curve in every environment: choose with --select, --exclude, --group"
            )
        scores[labels[label]] = [
            np.array([values[run.path] - lows[env] for run in own[env]])
            / (highs[env] - lows[env])
            for env in names
        ]
    return Suite(names, scores)


def _env(run: Record) -> str:
    return str(run.config["env"])


def final_return(run: Record, y: str) -> float:
    """The mean of its last epochs."""
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
        for env, own in group_by(runs, _env).items()
    }
    if alike := [env for env, own in found.items() if min(own) == max(own)]:
        raise UserError(
            f"all runs in {', '.join(alike)} are equally good, so they cannot be "
            "compared; give more runs, or leave it out with --exclude env=..."
        )
    lows = {env: min(own) for env, own in found.items()}
    return lows, {env: max(own) for env, own in found.items()}


# Estimators: `drawn` are scores [draws, runs] for each environment


def _iqm(drawn: Scores) -> np.ndarray:
    return statistics.iqm(np.concatenate(drawn, axis=1).T)  # of [all runs, draws]


def _median(drawn: Scores) -> np.ndarray:
    return np.median([own.mean(axis=1) for own in drawn], axis=0)


def _mean(drawn: Scores) -> np.ndarray:
    return np.mean([own.mean(axis=1) for own in drawn], axis=0)


AGGREGATES: dict[str, statistics.MultiSampleEstimator] = {
    "IQM": _iqm,
    "median": _median,
    "mean": _mean,
}


def aggregates(scores: Scores) -> dict[str, ScoreInterval]:
    """Every aggregate of the scores, with its interval."""
    return {
        name: _with_interval(estimate, scores) for name, estimate in AGGREGATES.items()
    }


def profile(scores: Scores) -> ScoreInterval:
    """The share of runs above each of `LEVELS`."""

    def estimate(drawn: Scores) -> np.ndarray:
        above = [[(own > level).mean(axis=1) for level in LEVELS] for own in drawn]
        return np.mean(above, axis=0).T  # [draws, levels]

    return _with_interval(estimate, scores)


def improvement(ours: Scores, theirs: Scores) -> ScoreInterval:
    """The probability that a run of ours beats one of theirs."""

    def estimate(drawn: Scores) -> np.ndarray:
        x, y = drawn[: len(ours)], drawn[len(ours) :]
        return np.mean([_win_rate(a, b) for a, b in zip(x, y, strict=True)], axis=0)

    return _with_interval(estimate, [*ours, *theirs])


def _win_rate(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    pairs = np.sign(x[:, :, None] - y[:, None, :])  # [draws, runs of x, runs of y]
    return (1 + pairs.mean(axis=(1, 2))) / 2


def improvements(suite: Suite) -> dict[tuple[str, str], ScoreInterval]:
    """The probability of improvement of each pair, the better one first."""
    found = {}
    for ours, theirs in itertools.combinations(suite.scores, 2):
        result = improvement(suite.scores[ours], suite.scores[theirs])
        if result.value < 0.5:
            ours, theirs = theirs, ours
            result = improvement(suite.scores[ours], suite.scores[theirs])
        found[ours, theirs] = result
    return found


def _with_interval(
    estimate: statistics.MultiSampleEstimator, scores: Scores
) -> ScoreInterval:
    value = estimate([own[None] for own in scores])[0]
    if all(len(own) == 1 for own in scores):
        unknown = np.full_like(value, np.nan)
        return ScoreInterval(value, unknown, unknown)
    return ScoreInterval(value, *statistics.stratified_bootstrap(scores, estimate))
