"""Copies the learning curves of finished suite runs into the results.

    python benchmarks/collect.py runs/mujoco

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

from jaxrl.logging.columns import RETURNS, STEPS

RESULTS = Path(__file__).parent / "results" / "mujoco"
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
    name = f"{config['algo']}_{config['env']}_{config['steps']}_s{config['seed']}.csv"
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
    parser.add_argument("runs", type=Path, help="directory of the suite's runs")
    parser.add_argument("--commit", default="", help="commit of jaxrl that made them")
    arguments = parser.parse_args()
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
