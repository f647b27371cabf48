"""Curves or a suite of runs as a picture, for `jaxrl plot` and `jaxrl.plot`."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrl.errors import UserError, suggestion
from jaxrl.logging.columns import STEPS
from jaxrl.logging.console import printable
from jaxrl.runs.reading import Record
from jaxrl.show import curves, plot, plot_suite, selection, spinup, statistics, suite
from jaxrl.show.curves import PERFORMANCE, Curve, Panel, View

Say = Callable[[str], None]
LISTS = ("y", "group", "select", "exclude", "legend")
SPINUP = "spinup"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `jaxrl plot`, by the names of its flags."""

    y: Sequence[str] = (PERFORMANCE,)
    x: str = STEPS
    smooth: int = 1
    est: str = "mean"
    band: str = "ci"
    group: Sequence[str] = ("exp_name",)
    count: bool = False
    facet: str = "env"
    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    legend: Sequence[str] = ()
    ref: str | None = None
    suite: bool = False

    @classmethod
    def from_python(cls, given: dict[str, Any]) -> "Options":
        """Checked as the command's parser does; a text is a list of one."""
        known = {field.name: field.type for field in dataclasses.fields(cls)}
        for name in given:
            if name not in known:
                hint = suggestion(name, known) or f"; there are {', '.join(known)}"
                raise UserError(f"plot has no option {name!r}{hint}")
        values: Any = {k: _as_list(k, x) if k in LISTS else x for k, x in given.items()}
        made = cls(**values)
        made._check()
        return made

    def _check(self) -> None:
        for name, allowed in (
            ("est", tuple(statistics.ESTIMATORS)),
            ("band", tuple(plot.BANDS)),
            ("ref", (None, SPINUP)),
            *((name, (True, False)) for name in ("count", "suite")),
        ):
            if (value := getattr(self, name)) not in allowed:
                one = ", ".join(map(repr, allowed))
                raise UserError(f"{name} is {value!r}, but must be one of {one}")
        if type(self.smooth) is not int or self.smooth < 1:
            raise UserError(f"smooth is {self.smooth!r}, but must be 1 or more")
        for name in ("x", "facet"):
            if not isinstance(value := getattr(self, name), str):
                raise UserError(f"{name} is {value!r}, but must be a name")
        if not self.y or not self.group:
            raise UserError("y and group name one column and one setting at least")

    @property
    def view(self) -> View:
        return View(
            x=self.x,
            ys=self.y,
            smooth=self.smooth,
            est=self.est,
            band=self.band,
            group=self.group,
            each_run=self.count,
            facet="" if self.facet == "none" else self.facet,
            legend=self.legend,
        )


def _as_list(name: str, value: Any) -> list[str]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(
        isinstance(x, str) for x in found
    ):
        raise UserError(f"{name} is {value!r}, but must be a text or a list of texts")
    return list(found)


class Picture(NamedTuple):
    """What is drawn, its size in inches and the number of its runs."""

    size: plot.Size
    drawing: plot.Drawing
    runs: int


def picture(paths: Iterable[str], given: Options, say: Say, note: Say) -> Picture:
    """Of the runs at or under the paths; notes what it leaves out."""
    runs, damages = selection.find_runs(paths, given.exclude)
    for damage in damages:
        note(f"skipped: {printable(damage)}")
    runs = selection.select(runs, given.select, given.exclude)
    runs, without = selection.split_by_data(runs)
    for why, members in selection.group_by(without, selection.why_empty).items():
        note(f"skipped {', '.join(run.name for run in members)}: {why}")
    size, drawing = (
        _suite(runs, given, say) if given.suite else _curves(runs, given, note)
    )
    return Picture(size, drawing, len(runs))


def _curves(
    runs: list[Record], given: Options, note: Say
) -> tuple[plot.Size, plot.Drawing]:
    view = given.view
    panels = curves.panels(runs, view)
    references = _references(panels, view, note) if given.ref else [[] for _ in panels]
    _note_cut(panels, note)
    _note_mixed(curves.mixed_environments(runs, view), note)
    return plot.figure_size(panels), lambda figure: plot.draw(
        figure, panels, references, view
    )


def _suite(
    runs: list[Record], given: Options, say: Say
) -> tuple[plot.Size, plot.Drawing]:
    """Its numbers are also printed."""
    if given.ref or given.count or len(given.y) > 1:
        raise UserError(
            "--suite compares groups by one column: no --ref, --count, -y A B"
        )
    found = suite.collect_scores(runs, given.view)
    width = max(map(len, found.scores))
    for label, scores in found.scores.items():
        values = suite.aggregates(scores).items()
        cells = [f"{name} {_interval(one)}" for name, one in values]
        say(f"{label:{width}}  {'  '.join(cells)}")
    for (ours, theirs), one in suite.improvements(found).items():
        say(f"P({ours} > {theirs})  {_interval(one)}")
    return plot_suite.figure_size(found), lambda figure: plot_suite.draw(figure, found)


def _interval(one: suite.ScoreInterval) -> str:
    known = not np.isnan(one.low)
    return f"{one.value:.3f}" + (f" [{one.low:.3f}, {one.high:.3f}]" if known else "")


def _references(panels: list[Panel], view: View, note: Say) -> list[list[Curve]]:
    """Spinning Up's curves for each panel; notes which are missing."""
    found = [spinup.reference_curves(panel, view) for panel in panels]
    alone = [panel for panel, own in zip(panels, found, strict=True) if not own]
    if alone:
        names = [f"{panel.y} in {', '.join(panel.environments)}" for panel in alone]
        note(
            f"drawn without reference: {'; '.join(names)}; Spinning Up published the "
            f"return over environment steps in {spinup.ENVIRONMENTS}"
        )
    late = [curve.label for own in found for curve in own if not len(curve.x)]
    for label in dict.fromkeys(late):
        note(f"{label} begins only after these runs end")
    return [[curve for curve in own if len(curve.x)] for own in found]


def _note_mixed(mixed: dict[str, list[str]], note: Say) -> None:
    """Which curves are means of returns that are not comparable."""
    for label, envs in mixed.items():
        note(
            f"{label} averages over {', '.join(envs)}; --facet env separates them, "
            "--suite compares over environments"
        )


def _note_cut(panels: list[Panel], note: Say) -> None:
    """Which curves could be longer."""
    cut = [c for panel in panels for c in panel.curves if c.x[-1] < c.latest]
    for label in dict.fromkeys(curve.label for curve in cut):
        note(
            f"the curve {label} stops where its shortest run ends; --count draws each "
            "run"
        )
