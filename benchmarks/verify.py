"""Rebuilds the tables and figures of the documentation from the committed results.

    python benchmarks/verify.py           # fails where a text differs from the data
    python benchmarks/verify.py --write   # writes tables, numbers and figures

A table stands in a Markdown file between `<!-- table: NAME -->` and `<!-- end -->`, a
number in a sentence between `<!-- number: NAME -->` and `<!-- end -->`. The pages in
docs/ name their tables in `{benchmark}`, which are made from the data when the pages
are built; here it is checked that there are such tables.
Needs no network and no training, and takes seconds.
"""

import argparse
import contextlib
import difflib
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import env_workers
import faults
import figures
import fused
import learn
import learn_jax
import overview
import parallel
import published
import records
import sentences
import speed
import suite
import time_to_result
import tuning

ROOT = Path(__file__).resolve().parents[1]
TEXTS = sorted(
    [ROOT / "README.md", *ROOT.glob("benchmarks/*.md"), *ROOT.glob("docs/**/*.md")]
)
BLOCK = re.compile(r"(<!-- table: ([a-z-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
NUMBER = re.compile(r"(<!-- number: ([a-z0-9-]+) -->)(.*?)(<!-- end -->)")
NAMED = re.compile(r"^```\{benchmark\} (\S+)", re.MULTILINE)
TABLES: dict[str, Callable[[], list[str]]] = {
    "algorithms": overview.rows,
    "suite": lambda: suite.rows(suite.cells()),
    "suite-long": lambda: suite.rows(suite.long_cells()),
    "published": published.rows,
    "tuning": tuning.rows,
    "time-to-result": lambda: printed(time_to_result.report, time_to_result.TASKS),
    "learn": lambda: printed(learn.report, learn.TASKS),
    "learn-jax": lambda: printed(learn_jax.report, learn_jax.TASKS),
    "faults": lambda: printed(faults.report, faults.CASES),
    "env-workers": lambda: printed(env_workers.report, worker_rows()),
    "parallel-means": lambda: printed(parallel.means, parallel.known()),
    "parallel-runs": lambda: printed(parallel.runs, parallel.known()),
    "parallel-ethernet": lambda: printed(parallel.scaling, parallel.NETWORKS[0]),
    "parallel-infiniband": lambda: printed(parallel.scaling, parallel.NETWORKS[1]),
    "speed": lambda: printed(speed.summary, speed.CASES),
    "fused": lambda: printed(fused.against_rejax, fused.CASES),
    "fused-costs": lambda: printed(fused.costs, fused.CASES),
}
FIGURES: dict[str, Callable[[Path], None]] = {
    "suite.png": figures.curves,
    "aggregate.png": figures.aggregate,
    "fused.png": figures.scaling,
}
LARGEST = 300_000  # bytes of a figure


def worker_rows() -> list[dict[str, str]]:
    return records.read(env_workers.RESULTS)


def printed(report: Callable, argument: Any) -> list[str]:
    """The lines that a benchmark prints about its results."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        report(argument)
    return output.getvalue().splitlines()


def rebuilt(text: str) -> str:
    """The text with every table and number made from the data."""

    def table(block: re.Match) -> str:
        lines = _named(TABLES, "table", block[2])()
        return f"{block[1]}\n" + "\n".join(lines) + f"\n\n{block[4]}"

    def number(block: re.Match) -> str:
        return block[1] + _named(sentences.SENTENCES, "number", block[2])() + block[4]

    return NUMBER.sub(number, BLOCK.sub(table, text))


def _named(known: dict[str, Callable], kind: str, name: str) -> Callable:
    if name not in known:
        raise SystemExit(f"no {kind} {name!r}; there are {', '.join(known)}")
    return known[name]


def differences(file: Path) -> list[str]:
    old = file.read_text()
    lines = difflib.unified_diff(
        old.splitlines(), rebuilt(old).splitlines(), "text", "data", lineterm="", n=0
    )
    unknown = [name for name in NAMED.findall(old) if name not in TABLES]
    found = [*lines, *(f"no table {name!r}" for name in unknown)]
    return [f"{file.relative_to(ROOT)}: {line}" for line in found]


def shown() -> list[str]:
    """The figures that a text shows."""
    texts = [file.read_text() for file in TEXTS]
    return [name for name in FIGURES if any(f"results/{name})" in x for x in texts)]


def write() -> None:
    for file in TEXTS:
        old = file.read_text()
        if (new := rebuilt(old)) != old:
            file.write_text(new)
            print(f"wrote {file.relative_to(ROOT)}")
    for name in shown():
        file = figures.FOLDER / name
        FIGURES[name](file)
        if file.stat().st_size > LARGEST:
            raise SystemExit(f"{file} has over {LARGEST:,} bytes")
        print(f"wrote {file.relative_to(ROOT)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write what differs")
    if parser.parse_args().write:
        write()
        return 0
    found = [line for file in TEXTS for line in differences(file)]
    absent = [name for name in shown() if not (figures.FOLDER / name).exists()]
    found += [f"benchmarks/results/{name} is missing" for name in absent]
    print("\n".join(found) or "every table and number is that of the data")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
