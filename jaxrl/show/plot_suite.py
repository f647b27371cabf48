"""Draws a suite: aggregates, performance profiles, probabilities of improvement."""

from typing import Any

import numpy as np

from jaxrl.show import suite
from jaxrl.show.plot import Styles, line_styles
from jaxrl.show.suite import AGGREGATES, LEVELS, ScoreInterval, Suite

SCORE = "normalised score"
CAPTION = (
    "score: mean of the last epochs, 0 for the worst and 1 for the best run in an "
    "environment; bands, where there are several runs: 95 % stratified bootstrap "
    "intervals"
)


def figure_size(found: Suite) -> tuple[float, float]:
    """Width and height in inches."""
    count = len(found.scores)
    return 13.5, max(4.2, 2.2 + 0.25 * count * (count - 1) / 2)


def draw(figure: Any, found: Suite) -> None:
    """Three panels and one legend for all."""
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1.2, 1])
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.1)
    styles = line_styles(list(found.scores))
    _draw_aggregates(left, found, styles)
    _draw_profiles(middle, found, styles)
    _draw_improvements(right, found)
    handles, labels = middle.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(6, len(labels)),
        title=CAPTION,
        title_fontsize=9,
        fontsize=9,
    )


def _draw_aggregates(axis: Any, found: Suite, styles: Styles) -> None:
    """A point and its interval for each estimate and each group."""
    height = len(found.scores) + 1
    for j, (label, scores) in enumerate(found.scores.items()):
        for i, one in enumerate(suite.aggregates(scores).values()):
            _draw_interval(axis, one, -i * height - j, styles[label][0])
    middles = [-i * height - (height - 2) / 2 for i in range(len(AGGREGATES))]
    axis.set_yticks(middles, list(AGGREGATES))
    axis.set_xlabel(SCORE)
    count = len(found.environments)
    axis.set_title(f"over {count} {'environment' if count == 1 else 'environments'}")


def _draw_interval(axis: Any, one: ScoreInterval, y: float, colour: str) -> None:
    axis.plot([one.low, one.high], [y, y], color=colour, linewidth=6, alpha=0.35)
    axis.plot(one.value, y, "o", color=colour)


def _draw_profiles(axis: Any, found: Suite, styles: Styles) -> None:
    for label, scores in found.scores.items():
        colour, dash = styles[label]
        one = suite.profile(scores)
        axis.plot(LEVELS, one.value, dash, color=colour, label=label)
        axis.fill_between(
            LEVELS, one.low, one.high, color=colour, alpha=0.2, linewidth=0
        )
    axis.set_xlabel(f"{SCORE} τ")
    axis.set_ylabel("share of runs above τ")
    axis.set_title("performance profiles")
    axis.margins(x=0.01)


def _draw_improvements(axis: Any, found: Suite) -> None:
    pairs = suite.improvements(found)
    for i, one in enumerate(pairs.values()):
        _draw_interval(axis, one, -i, "#666666")
    names = [f"{ours} > {theirs}" for ours, theirs in pairs]
    axis.set_yticks(-np.arange(len(names)), names)
    axis.axvline(0.5, color="#888888", linewidth=1, linestyle=":")
    axis.set_xlim(0, 1)
    axis.set_xlabel("probability")
    axis.set_title("probability of improvement")
