"""`jaxrl resume DIR ... [--steps N] [--wandb] [--changed-code]`."""

import argparse

from jaxrl.cli import options, running
from jaxrl.processes import mpirun
from jaxrl.runs import reading
from jaxrl.runs.reading import Record


def main(arguments: list[str]) -> int:
    given = options.parser("resume").parse(arguments)
    records = [reading.record(path) for path in given.dirs]
    for record in records:
        running.announce_code(record)
    first = records[0]
    threads = running.fix_threads(first)
    ranks = mpirun.ranks_to_start(first.num_procs)
    if ranks and len(records) == 1:
        return running.launched(["resume", *arguments], first.path, ranks, threads)
    running.cache_compilations()
    if len(records) > 1:
        return _resume_all(records, given)
    from jaxrl.training import train

    result = train.resume(
        first.path, given.steps, wandb=given.wandb, changed_code=given.changed_code
    )
    return running.report(result, *_named(first), given.wandb)


def _resume_all(records: list[Record], given: argparse.Namespace) -> int:
    """In one program."""
    from jaxrl.training import packed
    from jaxrl.training.train import ResumeOptions

    asked = ResumeOptions(given.steps, given.wandb, given.changed_code)
    members = packed.resume_all([record.path for record in records], asked)
    return running.report_all(members, *_named(records[0]))


def _named(record: Record) -> tuple[str, str]:
    """The environment and the networks of a run, by name."""
    return record.config["env"], str(record.config.get("networks", ""))
