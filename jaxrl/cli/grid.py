"""`jaxrl grid sweep.yaml`, `jaxrl grid ppo --env A B --seed 0 1 2 ...`."""

import argparse
from pathlib import Path

from jaxrl.algos import NAMES, is_file
from jaxrl.cli import lists, setting_flags
from jaxrl.cli.stdout import say
from jaxrl.errors import UserError, suggestion
from jaxrl.experiments import grid_file, runner, slurm
from jaxrl.experiments.estimate import estimate
from jaxrl.experiments.grid_file import GridFile
from jaxrl.experiments.variant import Variant
from jaxrl.logging.terminal import clock
from jaxrl.runs import failures
from jaxrl.settings.values import shown

# Of the command, not of its runs.
OPTIONS = (
    *("grid", "name", "out", "jobs", "dry_run", "time_limit", "retries"),
    *("overwrite", "launcher", "no_pack"),
)


def main(arguments: list[str]) -> int:
    parser = setting_flags.grid(arguments)
    own, unknown = parser.parse_some(arguments)
    if {*own.grid} <= {*NAMES}:
        parser.refuse_misspelt(unknown, (*setting_flags.NO_SETTINGS, *OPTIONS))
    given = {k: x for k, x in vars(own).items() if k not in OPTIONS}
    places = {k: x for k, x in vars(own).items() if k in ("name", "out") and x}
    flags = {k: _each(k, x) for k, x in setting_flags.several(given).items()}
    flags |= {k: _each(k, x) for k, x in unknown.items()}
    found = _grid_file(own.grid, flags, places)
    if own.dry_run:
        concurrent = len(found.variants) if own.launcher == "slurm" else 0
        return _describe(found.variants, own.jobs or concurrent)
    summary = _run(found, own)
    return _report(summary, Path(found.out) / found.grid.name)


def _run(found: GridFile, own: argparse.Namespace) -> runner.Summary:
    options = runner.Options(
        out=found.out,
        jobs=own.jobs,
        time_limit=own.time_limit,
        retries=own.retries,
        overwrite=own.overwrite,
        pack=not own.no_pack,
    )
    if own.launcher == "slurm":
        return slurm.run(found.grid.name, found.variants, options, found.slurm)
    return slurm.run_here(found.grid.name, found.variants, options)


def _each(name: str, words: list[str]) -> list[str]:
    """The values of a flag; `0,1,2` are three, where a setting has no commas."""
    key = name.partition("[")[0].replace("-", "_")
    return [value for word in words for value in lists.listed(key, word)]


def _grid_file(
    named: list[str], given: dict[str, list[str]], places: dict[str, str]
) -> GridFile:
    """The grid of a file, or of flags."""
    algos = [x for x in named if x in NAMES or is_file(x)] + given.pop("algo", [])
    others = [x for x in named if x not in NAMES and not is_file(x)]
    if algos and not others:
        return grid_file.from_flags(list(dict.fromkeys(algos)), given, places)
    first = others[0] if others else ""
    if not first or not (Path(first).exists() or Path(first).suffix):
        hint = suggestion(first, NAMES) or f"; choose {', '.join(NAMES)} or a file"
        asked = f"there is no file and no algorithm {first!r}" if first else "no grid"
        raise UserError(f"{asked}{hint}")
    if algos or len(others) > 1:
        another = (algos + others[1:])[0]
        raise UserError(f"a grid is one file, or algorithms: {first} and {another}")
    for name in given:
        hint = suggestion(f"--{name}", [f"--{option}" for option in OPTIONS[1:]])
        hint = hint or f"; set it in {first}"
        raise UserError(f"--{name} cannot be combined with a grid file{hint}")
    return grid_file.read(first, places)


def _describe(variants: list[Variant], jobs: int) -> int:
    """The table of a dry run."""
    keys = dict.fromkeys(key for variant in variants for key in variant.settings)
    # Steps have their own column, where on-policy they are whole epochs.
    own = [key for key in keys if key not in ("exp_name", "steps")]
    several = [key for key in own if _differs(key, variants)]
    rows = [["run", *several, "steps", "state"]]
    for variant in variants:
        values = [shown(variant.settings.get(key)) for key in several]
        steps = str(variant.run.total_steps)
        rows.append([variant.name, *values, steps, _state(variant)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{x:{w}}" for x, w in zip(row, widths, strict=True)).rstrip())
    seconds, basis = estimate(variants, jobs)
    count = f"{len(variants)} variant{'s' if len(variants) > 1 else ''}"
    print(f"\n{count}, about {clock(seconds)} ({basis})")
    return 0


def _differs(key: str, variants: list[Variant]) -> bool:
    return len({str(variant.settings.get(key)) for variant in variants}) > 1


def _state(variant: Variant) -> str:
    record = variant.record
    if record is None:
        return "failed" if failures.has_failed_to_start(variant.path) else "new"
    return "changed" if variant.changes(record) else record.state


def _report(summary: runner.Summary, root: Path) -> int:
    """Says what can be done now; the exit code."""
    if summary.queued:
        say("the jobs keep running in Slurm; the same command shows them again, and")
        say(f"  scancel {' '.join(summary.queued)}        stops them")
    elif summary.stopped_by:
        say("run the same command again to continue")
    if summary.stopped_by:
        return 128 + summary.stopped_by
    if summary.finished:
        say(f"  jaxrl plot {root}        jaxrl ls {root}")
    return 1 if summary.failed else 0
