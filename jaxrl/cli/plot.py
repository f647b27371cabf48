"""`jaxrl plot PATH... [-y COLUMN ...]`."""

import argparse
import sys
from pathlib import Path

import numpy as np

from jaxrl.cli import options
from jaxrl.cli.flags import writing
from jaxrl.errors import UserError
from jaxrl.logging.console import printable
from jaxrl.runs.reading import Record
from jaxrl.show import curves, plot, plot_suite, selection, spinup, suite
from jaxrl.show.curves import Curve, Panel, View

Picture = tuple[plot.Size, plot.Drawing]


def main(arguments: list[str]) -> int:
    given = options.parser("plot").parse(arguments)
    runs, damages = selection.find_runs(given.paths, given.exclude)
    for damage in damages:
        print(f"jaxrl: skipped: {printable(damage)}", file=sys.stderr)
    runs = selection.select(runs, given.select, given.exclude)
    runs, without = selection.split_by_data(runs)
    view = View(
        x=given.x,
        ys=given.y,
        smooth=given.smooth,
        est=given.est,
        band=given.band,
        group=given.group,
        each_run=given.count,
        facet="" if given.facet == "none" else given.facet,
        legend=given.legend,
    )
    _note_absent(without)
    picture = _suite(runs, view, given) if given.suite else _curves(runs, view, given)
    if given.output or not given.show:
        output = given.output or Path("suite.png" if given.suite else "curves.png")
        with writing(output, plot.SUFFIXES) as path:
            plot.save(path, *picture)
        print(f"{output}: {len(runs)} {'run' if len(runs) == 1 else 'runs'}")
    if given.show:
        plot.show(*picture)
    return 0


def _curves(runs: list[Record], view: View, given: argparse.Namespace) -> Picture:
    panels = curves.panels(runs, view)
    references = _references(panels, view) if given.ref else [[] for _ in panels]
    _note_cut(panels)
    _note_mixed(curves.mixed_environments(runs, view))
    return plot.figure_size(panels), lambda figure: plot.draw(
        figure, panels, references, view
    )


def _suite(runs: list[Record], view: View, given: argparse.Namespace) -> Picture:
    """Its numbers are also printed."""
    if given.ref or given.count or len(given.y) > 1:
        raise UserError(
            "--suite compares groups by one column: no --ref, --count, -y A B"
        )
    found = suite.collect_scores(runs, view)
    width = max(map(len, found.scores))
    for label, scores in found.scores.items():
        values = suite.aggregates(scores).items()
        cells = [f"{name} {_interval(one)}" for name, one in values]
        print(f"{label:{width}}  {'  '.join(cells)}")
    for (ours, theirs), one in suite.improvements(found).items():
        print(f"P({ours} > {theirs})  {_interval(one)}")
    return plot_suite.figure_size(found), lambda figure: plot_suite.draw(figure, found)


def _interval(one: suite.ScoreInterval) -> str:
    known = not np.isnan(one.low)
    return f"{one.value:.3f}" + (f" [{one.low:.3f}, {one.high:.3f}]" if known else "")


def _references(panels: list[Panel], view: View) -> list[list[Curve]]:
    """Spinning Up's curves for each panel; says on stderr which are missing."""
    found = [spinup.reference_curves(panel, view) for panel in panels]
    alone = [panel for panel, own in zip(panels, found, strict=True) if not own]
    if alone:
        names = [f"{panel.y} in {', '.join(panel.environments)}" for panel in alone]
        print(
            f"jaxrl: drawn without reference: {'; '.join(names)}; Spinning Up "
            "published the return over environment steps in "
            f"{spinup.ENVIRONMENTS}",
            file=sys.stderr,
        )
    late = [curve.label for own in found for curve in own if not len(curve.x)]
    for label in dict.fromkeys(late):
        print(f"jaxrl: {label} begins only after these runs end", file=sys.stderr)
    return [[curve for curve in own if len(curve.x)] for own in found]


def _note_absent(runs: list[Record]) -> None:
    """Says on stderr which runs are not drawn."""
    for why, members in selection.group_by(runs, selection.why_empty).items():
        names = ", ".join(run.name for run in members)
        print(f"jaxrl: skipped {names}: {why}", file=sys.stderr)


def _note_mixed(mixed: dict[str, list[str]]) -> None:
    """Says on stderr which curves average over several environments."""
    for label, envs in mixed.items():
        print(
            f"jaxrl: {label} averages over {', '.join(envs)}; --facet env separates "
            "them, --suite compares over environments",
            file=sys.stderr,
        )


def _note_cut(panels: list[Panel]) -> None:
    """Says on stderr which curves end with their shortest run."""
    cut = [c for panel in panels for c in panel.curves if c.x[-1] < c.latest]
    for label in dict.fromkeys(curve.label for curve in cut):
        print(
            f"jaxrl: the curve {label} stops where its shortest run ends; --count "
            "draws each run",
            file=sys.stderr,
        )
