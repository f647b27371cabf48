"""Copies the learning curves of finished suite runs into the results.

    python benchmarks/collect.py runs/mujoco
    python benchmarks/collect.py --missing > missing.yaml    # a grid of the others

Each curve is one small CSV, `results/mujoco/<algo>_<env>_<steps>_s<seed>.csv`:
steps and returns, one row an epoch. `results/mujoco/runs.csv` lists the runs with the
commit, versions, machine and seconds that made them. Unfinished runs are left out.
"""

import argparse
import csv
import datetime
from pathlib import Path
from typing import Any

import yaml

from jaxrl.experiments import grid_file
from jaxrl.logging.columns import RETURNS, STEPS

SUITE = Path(__file__).with_name("mujoco.yaml")
RESULTS = SUITE.parent / "results" / "mujoco"
PACKAGES = ("jax", "flax", "optax", "gymnasium", "mujoco", "numpy")


def is_finished(config: dict[str, Any], rows: list[dict[str, str]]) -> bool:
    return bool(rows) and float(rows[-1][STEPS]) >= config["steps"]


def read(run: Path) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Its settings and the rows of its log."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    rows = list(csv.DictReader((run / "progress.csv").read_text().splitlines()))
    return config, rows


def column_of_returns(rows: list[dict[str, str]]) -> str:
    return next(name for name in RETURNS if name in rows[0])


def copy_curve(run: Path) -> dict[str, Any] | None:
    """Writes the curve of a finished run; its line of runs.csv."""
    config, rows = read(run)
    if not is_finished(config, rows):
        return None
    name = curve_name(config)
    column = column_of_returns(rows)
    with (RESULTS / name).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((STEPS, column))
        writer.writerows((row[STEPS], short(row[column])) for row in rows)
    machine, versions = config["machine"], config["machine"]["versions"]
    ended = datetime.date.fromtimestamp((run / "progress.csv").stat().st_mtime)
    return {
        "curve": name,
        "seconds": f"{float(rows[-1]['Time']):.0f}",
        "date": ended.isoformat(),
        "commit": machine["commit"] or "",
        "processor": machine["processor"],
        "python": machine["python"],
        **{package: versions.get(package, "") for package in PACKAGES},
    }


def curve_name(run: dict[str, Any]) -> str:
    return f"{run['algo']}_{run['env']}_{run['steps']}_s{run['seed']}.csv"


def missing() -> dict[str, Any]:
    """The suite's runs without a curve, in its order, as a grid."""
    every = [
        {name: getattr(variant.run, name) for name in ("algo", "env", "steps", "seed")}
        for variant in grid_file.read(str(SUITE)).variants
    ]
    left = [run for run in every if not (RESULTS / curve_name(run)).exists()]
    if not left:
        raise SystemExit("every run of the suite has a curve")
    return left[0] | {"name": SUITE.stem, "include": left[1:]}


def short(cell: str) -> str:
    return f"{float(cell):.6g}" if cell else ""


def known_runs() -> dict[str, dict[str, Any]]:
    file = RESULTS / "runs.csv"
    rows = csv.DictReader(file.read_text().splitlines()) if file.exists() else []
    return {row["curve"]: row for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("runs", type=Path, nargs="?", help="directory of the suite's runs")
    add("--commit", default="", help="commit of jaxrl that made them")
    add("--missing", action="store_true", help="print a grid of the suite's other runs")
    arguments = parser.parse_args()
    if arguments.missing:
        print(yaml.safe_dump(missing(), sort_keys=False), end="")
        return
    if not arguments.runs:
        parser.error("name the directory of the runs, or --missing")
    RESULTS.mkdir(parents=True, exist_ok=True)
    found = known_runs()
    for progress in sorted(arguments.runs.glob("*/*/progress.csv")):
        if line := copy_curve(progress.parent):
            line["commit"] = arguments.commit or line["commit"]
            found[line["curve"]] = line
    if not found:
        raise SystemExit(f"there is no finished run in {arguments.runs}")
    with (RESULTS / "runs.csv").open("w", newline="") as file:
        columns = list(next(iter(found.values())))
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found[name] for name in sorted(found))
    print(f"{len(found)} curves in {RESULTS}")


if __name__ == "__main__":
    main()
