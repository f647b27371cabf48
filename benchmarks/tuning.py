"""What was tried for the defaults: one row of results/tuning.csv per finished run.

    python benchmarks/tuning.py "batch 128" runs/x/x_s0 runs/x/x_s1    # adds runs
    python benchmarks/tuning.py --report

The return is smoothed as in suite.py, at the last step that has a whole window, which
is where the suite is compared with Spinning Up.
"""

import argparse
from pathlib import Path

import collect
import numpy as np
import records
import suite

from jaxrl.logging.columns import STEPS

RESULTS = Path(__file__).parent / "results" / "tuning.csv"


def measured(run: Path) -> dict[str, str]:
    """Algorithm, environment, seed, step and return of a finished run."""
    config, rows = collect.read(run)
    if not collect.is_finished(config, rows):
        raise SystemExit(f"{run} is not finished")
    column = collect.column_of_returns(rows)
    points = [(float(r[STEPS]), float(r[column])) for r in rows if r[column]]
    step = suite.last_step(config["steps"])
    curve = suite.smoothed(suite.Curve(*np.array(points).T), step)
    return {
        "algo": config["algo"],
        "env": config["env"],
        "seed": str(config["seed"]),
        "step": str(step),
        "return": f"{curve.returns[-1]:.0f}",
    }


def add(label: str, runs: list[Path], commit: str) -> None:
    known = records.read(RESULTS)
    for run in runs:
        row = {"settings": label} | measured(run)
        if any(row.items() <= other.items() for other in known):
            continue
        records.append(RESULTS, row | {"commit": commit} if commit else row)
        print(*row.values())


def rows() -> list[str]:
    """The table in Markdown: a line per settings, the returns of its seeds."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for row in records.read(RESULTS):
        key = (row["algo"], row["env"], row["step"], row["settings"])
        found.setdefault(key, []).append(row["return"])
    lines = ["| algorithm | environment | step | settings | returns | Spinning Up |"]
    lines.append("| --- " * 6 + "|")
    for (algo, env, step, settings), returns in sorted(found.items()):
        theirs, _ = suite.reference(algo, env).at(float(step))
        cells = (algo.upper(), env, f"{int(step):,}", settings)
        lines.append(f"| {' | '.join(cells)} | {', '.join(returns)} | {theirs:.0f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("label", nargs="?", default="", help="the settings in words")
    parser.add_argument("runs", nargs="*", type=Path, help="directories of runs")
    parser.add_argument("--commit", default="", help="commit of jaxrl that made them")
    parser.add_argument("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    if not arguments.report:
        add(arguments.label, arguments.runs, arguments.commit)
    print("\n".join(rows()))


if __name__ == "__main__":
    main()
