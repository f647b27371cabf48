"""`jaxrl grid sweep.yaml`, `jaxrl grid ppo --env A B --seed 0 1 2 ...`."""

from pathlib import Path
from typing import Any

from jaxrl.algos import NAMES
from jaxrl.cli import flags
from jaxrl.cli.train import value_of_none
from jaxrl.errors import UserError, suggestion
from jaxrl.experiments import grid_file, runner, slurm
from jaxrl.experiments.estimate import estimate
from jaxrl.experiments.grid_file import Sheet
from jaxrl.experiments.variant import Variant
from jaxrl.logging.terminal import clock
from jaxrl.runs import failures

HELP = """\
usage: jaxrl grid FILE.yaml [OPTION ...]
       jaxrl grid ALGO --env ID ... [--setting value ...] [OPTION ...]

Runs every combination of the values of its settings, several at a time, each in a
process of its own. Rerunning skips finished runs, resumes interrupted ones and retries
failed ones. `--setting[xyz] value ...` gives a setting another short name.

With --launcher slurm they are a job array of Slurm, and this command shows how they get
on. Ctrl-C ends the showing and not the jobs: the same command shows them again.

options:
  --name NAME          names the runs and their directory [the file's name, or ALGO]
  --jobs N             runs at a time, of one thread each [what the cores have room for]
  --out DIR            directory that holds grids [runs]
  --dry_run            only show the variants and estimate the time
  --time_limit TIME    stop and save a run after so long, as in 90s, 30m or 2h [none]
  --retries N          how often a run that failed is tried again at once [0]
  --overwrite          remove runs of earlier, different settings
  --launcher NAME      where to run: local or slurm, as the file's `slurm:` asks [local]
"""
OPTIONS = ("jobs", "dry_run", "time_limit", "retries", "overwrite", "launcher")
# What the flags beside the settings take.
KINDS = {"env": "ID", "preset": "NAME", "name": "NAME", "out": "DIR", "jobs": "N"}
KINDS |= {"time_limit": "TIME", "retries": "N", "launcher": "NAME"}
LAUNCHERS = ("local", "slurm")


def main(arguments: list[str]) -> int:
    first, words = flags.first_of(arguments)
    given = _flags(words)
    if "help" in given:
        print(HELP, end="")
        return 0
    own = {name: given.pop(name) for name in OPTIONS if name in given}
    grid, out, cluster = _sheet(first, given)
    options, launcher = _options(own, out), _launcher(own)
    variants = grid.runs(out)
    if "dry_run" in own:
        concurrent = len(variants) if launcher == "slurm" else 0
        return _describe(variants, options.jobs or concurrent)
    if launcher == "slurm":
        summary = slurm.run(grid.name, variants, options, cluster)
    else:
        summary = slurm.run_here(grid.name, variants, options)
    return _report(summary, Path(out) / grid.name)


def _flags(words: list[str]) -> dict[str, list[str]]:
    """Every flag with the values that follow it; - and _ are alike."""
    found: dict[str, list[str]] = {}
    for word in words:
        if word == "-h":
            word = "--help"
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = name.replace("-", "_")
            if name in found:
                raise UserError(f"--{name} is given twice; name all its values once")
            found[name] = [value] if equals else []
        elif found:
            found[name].append(word)
        else:
            raise UserError(f"{word!r} follows no flag; settings are --name value ...")
    return {
        name: values or [value_of_none(name, KINDS)] for name, values in found.items()
    }


def _sheet(first: str, given: dict[str, list[str]]) -> Sheet:
    if first in NAMES:
        return grid_file.from_flags(first, given)
    if not first or not (Path(first).exists() or Path(first).suffix):
        hint = suggestion(first, NAMES) or f"; choose {', '.join(NAMES)} or a file"
        asked = f"there is no file and no algorithm {first!r}" if first else "no grid"
        raise UserError(f"{asked}{hint}")
    read = grid_file.read(first)
    if strangers := [name for name in given if name not in ("name", "out")]:
        hint = suggestion(f"--{strangers[0]}", [f"--{name}" for name in OPTIONS])
        hint = hint or f"; the settings of a grid stand in {first}"
        raise UserError(f"--{strangers[0]} is not an option of a file's grid{hint}")
    read.grid.name = given.get("name", [read.grid.name])[0]
    return read._replace(out=given.get("out", [read.out])[0])


def _options(own: dict[str, list[str]], out: str) -> runner.Options:
    if several := [name for name, values in own.items() if len(values) > 1]:
        raise UserError(f"--{several[0]} takes one value")
    kinds = {"jobs": flags.count, "retries": flags.seed, "time_limit": flags.duration}
    found: dict[str, Any] = {"out": out, "overwrite": "overwrite" in own}
    for name, kind in kinds.items():
        try:
            found |= {name: kind(own[name][0])} if name in own else {}
        except flags.Wrong as wrong:
            raise UserError(f"--{name} {wrong}") from None
    return runner.Options(**found)


def _launcher(own: dict[str, list[str]]) -> str:
    name = own.get("launcher", ["local"])[0]
    if name not in LAUNCHERS:
        hint = suggestion(name, LAUNCHERS) or f"; choose {' or '.join(LAUNCHERS)}"
        raise UserError(f"there is no launcher {name!r}{hint}")
    return name


def _describe(variants: list[Variant], jobs: int) -> int:
    """The table of a dry run."""
    keys = dict.fromkeys(key for variant in variants for key in variant.settings)
    # Steps have a column of their own, where on-policy they are whole epochs.
    shown = [key for key in keys if key not in ("exp_name", "steps")]
    several = [key for key in shown if _differs(key, variants)]
    rows = [["run", *several, "steps", "state"]]
    for variant in variants:
        values = [_shown(variant.settings.get(key)) for key in several]
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


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def _report(summary: runner.Summary, root: Path) -> int:
    """Says what can be done now; the exit code."""
    if summary.queued:
        print("the jobs go on in Slurm; the same command shows them again, and")
        print(f"  scancel {' '.join(summary.queued)}        ends them")
    elif summary.stopped_by:
        print("run the same command again to go on")
    if summary.stopped_by:
        return 128 + summary.stopped_by
    if summary.finished:
        print(f"  jaxrl plot {root}        jaxrl ls {root}")
    return 1 if summary.failed else 0
