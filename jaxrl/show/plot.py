"""Draws learning curves: to a file without a display, or in a window."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxrl.errors import UserError
from jaxrl.show.curves import Curve, Panel, View

SUFFIXES = (".png", ".svg", ".pdf")
# Okabe and Ito's colours for the colour-blind, without their yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", ":", "-.")  # when the colours are used up
STYLE: Any = {  # matplotlib's rcParams
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "grid.color": "#e6e6e6",
    "legend.frameon": False,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "svg.fonttype": "none",
}
LABELS = {
    "TotalEnvInteracts": "environment steps",
    "Time": "time (seconds)",
    "Epoch": "epoch",
    "Performance": "return",
    "AverageTestEpRet": "return of test episodes",
    "AverageEpRet": "return of training episodes",
    "EpLen": "length of training episodes (steps)",
    "TestEpLen": "length of test episodes (steps)",
    "StepsPerSecond": "environment steps a second",
    "EnvSeconds": "time of environments (seconds an epoch)",
    "ActSeconds": "time of acting (seconds an epoch)",
    "UpdateSeconds": "time of updates (seconds an epoch)",
}
BANDS = {
    "ci": "95 % bootstrap interval",
    "sd": "standard deviation",
    "minmax": "range",
}


Size = tuple[float, float]
Drawing = Callable[[Any], None]  # onto a figure
Styles = dict[str, tuple[str, str]]  # colour and dash by label


def figure(size: Size, drawing: Drawing) -> Any:
    """A figure of matplotlib, which a notebook shows, but no window."""
    import matplotlib

    from jaxrl.show.notebook_figure import NotebookFigure

    with matplotlib.rc_context(STYLE):
        made = NotebookFigure(size, layout="constrained")
        drawing(made)
    return made


def save(path: Path, figure: Any) -> None:
    """Writes a figure in the format of the suffix."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        figure.savefig(path, dpi=160)


def show(size: Size, drawing: Drawing) -> None:
    """Opens a window and waits until it is closed."""
    import matplotlib.pyplot as plt

    if plt.get_backend().lower() == "agg":
        raise UserError("there is no display for --show; write a file with -o")
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=size, layout="constrained")
        drawing(figure)
        plt.show()


def _grid_columns(panels: Sequence[Panel]) -> int:
    """One per environment if several columns of the log are drawn, else up to three."""
    facets = len({panel.title for panel in panels})
    return facets if 1 < facets < len(panels) else min(3, len(panels))


def figure_size(panels: Sequence[Panel]) -> Size:
    """Width and height in inches."""
    columns = _grid_columns(panels)
    rows = -(-len(panels) // columns)
    labels = {curve.label for panel in panels for curve in panel.curves}
    return max(6.4, 4.4 * columns), 3.4 * rows + 0.9 + 0.1 * len(labels)


def draw(
    figure: Any, panels: Sequence[Panel], references: Sequence[list[Curve]], view: View
) -> None:
    """Draws every panel, and one legend below them."""
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    columns = _grid_columns(panels)
    axes = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
    styles = line_styles([curve.label for panel in panels for curve in panel.curves])
    for axis, panel, reference in zip(axes, panels, references, strict=False):
        _draw_panel(axis, panel, reference, view, styles)
    _draw_titles(figure, axes, panels)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    handles: dict[str, Any] = {}
    for axis in axes:
        lines, labels = axis.get_legend_handles_labels()
        handles |= dict(zip(labels, lines, strict=True))
    shown = [curve for panel in panels for curve in panel.curves]
    shown += [curve for reference in references for curve in reference]
    figure.legend(
        handles.values(),
        [_with_run_count(label, shown) for label in handles],
        loc="outside lower center",
        ncols=min(columns + 1, len(handles)),
        title=_caption(panels, references, view),
        title_fontsize=9,
        fontsize=9,
    )


def _draw_titles(figure: Any, axes: Sequence[Any], panels: Sequence[Panel]) -> None:
    """Draws each title once: over the first of its panels, or over all."""
    titles = list(dict.fromkeys(panel.title for panel in panels))
    if len(titles) == 1 < len(panels):
        figure.suptitle(titles[0], fontsize=STYLE["axes.titlesize"])
        return
    for axis, title in zip(axes, titles, strict=False):
        axis.set_title(title)


def _with_run_count(label: str, curves: Sequence[Curve]) -> str:
    """A label with its number of runs, a range where panels differ."""
    counts = sorted({curve.runs for curve in curves if curve.label == label})
    if counts == [1]:
        return label
    return f"{label} ({'-'.join(map(str, {counts[0]: 0, counts[-1]: 0}))} runs)"


def line_styles(labels: Sequence[str]) -> Styles:
    """Colour and dash of each label, the same in all panels."""
    return {
        label: (COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)])
        for i, label in enumerate(dict.fromkeys(labels))
    }


def _draw_panel(
    axis: Any,
    panel: Panel,
    references: list[Curve],
    view: View,
    styles: Styles,
) -> None:
    colour_of: dict[str, str] = {}
    for curve in panel.curves:
        colour, dash = styles[curve.label]
        colour_of.setdefault(curve.algo, colour)
        _draw_curve(axis, curve, colour, dash, 0.2)
    for curve in references:
        _draw_curve(axis, curve, colour_of[curve.algo], "--", 0.08)
    axis.set_xlabel(LABELS.get(view.x, view.x))
    axis.set_ylabel(LABELS.get(panel.y, panel.y))
    axis.xaxis.set_major_formatter(lambda value, _: short_number(value))
    axis.locator_params(axis="x", nbins=6)
    axis.margins(x=0.01)
    axis.set_xlim(left=0)


def _draw_curve(axis: Any, curve: Curve, colour: str, dash: str, alpha: float) -> None:
    marker = "o" if len(curve.x) == 1 else None  # a line of one point is invisible
    axis.plot(curve.x, curve.y, dash, color=colour, label=curve.label, marker=marker)
    if (curve.low < curve.high).any():
        band = (curve.x, curve.low, curve.high)
        axis.fill_between(*band, color=colour, alpha=alpha, linewidth=0)


def _caption(
    panels: Sequence[Panel], references: Sequence[list[Curve]], view: View
) -> str:
    several = any(curve.runs > 1 for panel in panels for curve in panel.curves)
    words = [f"{view.est} and {BANDS[view.band]} over runs"] if several else []
    words += [f"smoothed over {view.smooth} rows"] if view.smooth > 1 else []
    words += ["dashed: mean and standard deviation on -v3"] if any(references) else []
    return "; ".join(words)


def short_number(number: float) -> str:
    """With a unit, for axes: 250k, 1.5M."""
    for size, unit in (1e9, "G"), (1e6, "M"), (1e3, "k"):
        if abs(number) >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"
