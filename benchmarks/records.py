"""The benchmarks' result files: CSV rows that name machine, versions, commit and date.

Rows from before these four columns existed have them empty.
"""

import csv
import datetime
import functools
import importlib.metadata
import io
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ORIGIN = ("machine", "versions", "commit", "date")
PACKAGES = ("jaxrl", "jax", "jaxlib", "flax", "numpy", "gymnasium", "mujoco")
PACKAGES += ("stable-baselines3", "sb3-contrib", "sbx-rl", "torch")  # if installed


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a result file; none if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add a row and its origin; a file without these columns gets them first."""
    full = origin() | {name: str(value) for name, value in row.items()}
    rows = read(path)
    if not rows or not full.keys() <= rows[0].keys():
        write(path, rows, [*(name for name in row if name not in ORIGIN), *ORIGIN])
    with path.open("a", newline="") as file:
        csv.DictWriter(file, _header(path), lineterminator="\n").writerow(full)


def write(path: Path, rows: Iterable[Mapping[str, str]], columns: list[str]) -> None:
    """Replace the file by these rows."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text.getvalue())
    temporary.replace(path)


def _header(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return next(csv.reader(file))


def origin() -> dict[str, str]:
    """What a measurement depends on besides its settings."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    values = (_machine(), versions(), _commit(), today)
    return dict(zip(ORIGIN, values, strict=True))


@functools.cache
def _machine() -> str:
    cpu = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        fields = (line.partition(":") for line in info.read_text().splitlines())
        models = [value for name, _, value in fields if name.strip() == "model name"]
        cpu = models[0].strip() if models else cpu
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}"


@functools.cache
def versions() -> str:
    """Of Python and the packages, in the Python that runs this."""
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def _commit() -> str:
    """Of this repository; ends in -dirty if other files than results have changed."""
    head = _git("rev-parse", "--short", "HEAD")
    others = ("--untracked-files=no", "--", ".", ":!benchmarks/results")
    return head + ("-dirty" if _git("status", "--porcelain", *others) else "")


def _git(*arguments: str) -> str:
    """What the command prints; nothing without git or outside a repository."""
    command = ["git", *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
