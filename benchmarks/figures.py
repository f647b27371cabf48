"""The figures of the documentation, drawn from the committed results."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import fused
import matplotlib.pyplot as plt
import numpy as np
import suite

from jaxrl.show.statistics import iqm

FOLDER = Path(__file__).parent / "results"
COLOURS = dict(
    zip(
        suite.ALGOS,
        ("#E69F00", "#009E73", "#0072B2", "#56B4E9", "#CC79A7", "#D55E00"),
        strict=True,
    )
)
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
DRAWS = 2000


def curves(file: Path) -> None:
    """A panel an environment: six algorithms with bands, Spinning Up's dashed."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 3, figsize=(11, 6), layout="constrained")
        for axis, env in zip(axes.flat, suite.ENVS, strict=False):
            for algo in suite.ALGOS:
                draw_algorithm(axis, algo, env)
            axis.set_title(env)
            axis.set_xlabel("environment steps (millions)")
            axis.set_ylabel("return")
        draw_legend(axes.flat[-1])
        figure.savefig(file, dpi=110)
        plt.close(figure)


def draw_algorithm(axis: plt.Axes, algo: str, env: str) -> None:
    steps = 1_000_000 if algo in suite.ON_POLICY else 300_000
    found = suite.runs().get((algo, env, steps))
    if not found:
        return
    lines = [suite.smoothed(curve, steps - suite.HALF_WINDOW) for curve in found]
    x, ys = lines[0].steps / 1e6, np.stack([line.returns for line in lines])
    axis.plot(x, ys.mean(0), color=COLOURS[algo], linewidth=1.4)
    if len(ys) > 1:
        axis.fill_between(
            x, ys.min(0), ys.max(0), color=COLOURS[algo], alpha=0.18, linewidth=0
        )
    theirs = suite.reference(algo, env)
    shown = theirs.steps <= steps
    style = {"color": COLOURS[algo], "linestyle": "--", "linewidth": 0.9}
    axis.plot(theirs.steps[shown] / 1e6, theirs.mean[shown], **style)


def draw_legend(axis: plt.Axes) -> None:
    axis.axis("off")
    lines = [
        plt.Line2D([], [], color=colour, label=algo.upper())
        for algo, colour in COLOURS.items()
    ]
    lines += [
        plt.Line2D([], [], color="grey", label="jaxrl, mean; band: all seeds"),
        plt.Line2D([], [], color="grey", linestyle="--", label="Spinning Up, mean"),
    ]
    axis.legend(handles=lines, loc="center", frameon=False, ncols=2)


def aggregate(file: Path) -> None:
    """Over environments: IQM of normalised returns, probability of improvement."""
    found = suite.cells()
    names = [a for a in suite.ALGOS if any(cell.algo == a for cell in found)]
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(9, 2.6), sharey=True, layout="constrained"
        )
        for row, algo in enumerate(reversed(names)):
            own = [cell for cell in found if cell.algo == algo]
            draw_iqm(left, row, own)
            draw_improvement(right, row, own)
        left.set_yticks(range(len(names)), [name.upper() for name in reversed(names)])
        left.set_xlabel("IQM of normalised returns (x: Spinning Up)")
        right.axvline(0.5, color="grey", linewidth=0.8)
        right.set_xlim(0, 1)
        right.set_xlabel("P(ours > Spinning Up's), mean over environments")
        figure.savefig(file, dpi=110)
        plt.close(figure)


def draw_iqm(axis: plt.Axes, row: int, cells: list[suite.Cell]) -> None:
    samples = [np.asarray(suite.normalised(c.env, c.scores)) for c in cells]
    low, high = interval(samples, iqm)
    colour = COLOURS[cells[0].algo]
    axis.barh(row, high - low, left=low, height=0.5, color=colour, alpha=0.35)
    axis.plot([iqm(np.concatenate(samples))], [row], "|", color=colour, markersize=14)
    theirs = [float(suite.normalised(c.env, c.theirs)) for c in cells]
    axis.plot([iqm(np.array(theirs))], [row], "x", color="black", markersize=5)


def draw_improvement(axis: plt.Axes, row: int, cells: list[suite.Cell]) -> None:
    samples = [cell.probability_of_improvement for cell in cells]

    def mean(values: np.ndarray) -> float:
        return float(values.mean())

    low, high = interval(samples, mean)
    colour = COLOURS[cells[0].algo]
    axis.barh(row, high - low, left=low, height=0.5, color=colour, alpha=0.35)
    centre = np.mean([sample.mean() for sample in samples])
    axis.plot([centre], [row], "|", color=colour, markersize=14)


def interval(samples: list[np.ndarray], estimate) -> tuple[float, float]:
    """95 % of the estimates over stratified bootstrap draws, always the same ones."""
    rng = np.random.default_rng(0)
    found = [
        estimate(np.concatenate([rng.choice(x, len(x)) for x in samples]))
        for _ in range(DRAWS)
    ]
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


def scaling(file: Path) -> None:
    """Steps per second of PPO in a JAX environment, over environments and seeds."""
    mapped = ("jaxrl", "lax.map"), ("jaxrl vmap", "vmap")
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(9, 3), sharey=True, layout="constrained"
        )
        draw_rates(left, [(n, fused.scaling(n, 1).name) for n in fused.ENVS], "jaxrl")
        for side, label in mapped:
            cases = [(n, fused.scaling(64, n).name) for n in fused.SEEDS]
            draw_rates(right, cases, side, label)
        left.set_xlabel("environments, 1 seed")
        left.set_ylabel("steps per CPU second")
        right.set_xlabel("seeds, 64 environments each")
        right.legend(frameon=False)
        left.set_ylim(bottom=0)
        figure.savefig(file, dpi=110)
        plt.close(figure)


def draw_rates(
    axis: plt.Axes, cases: list[tuple[int, str]], side: str, label: str = ""
) -> None:
    """One seed needs no mapping, so that it starts both curves."""
    rates = [fused.rate(name, side if n > 1 else "jaxrl") for n, name in cases]
    known = [(n, rate) for (n, _), rate in zip(cases, rates, strict=True) if rate]
    if known:
        axis.plot(*zip(*known, strict=True), marker="o", label=label)
    axis.set_xscale("log", base=2)
    axis.set_xticks([n for n, _ in cases], [str(n) for n, _ in cases])
