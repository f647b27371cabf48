"""`jaxrl packed FILE ... [--replace FILE ...]`: variants of a grid in one program.

The runner of a grid starts it. How each run ended is in the file beside its settings.
"""

import dataclasses
import functools
from pathlib import Path
from typing import Any

from jaxrl.cli import running, stdout
from jaxrl.experiments.variant import Variant
from jaxrl.processes import ranks
from jaxrl.runs import packing, status
from jaxrl.runs.status import Status


def main(arguments: list[str]) -> int:
    """0 also where some have failed: each has its outcome."""
    cut = arguments.index("--replace") if "--replace" in arguments else len(arguments)
    files, replaced = map(Path, arguments[:cut]), arguments[cut + 1 :]
    variants = [Variant.read(file) for file in files]
    packing.refuse_different([variant.run for variant in variants])
    running.cache_compilations()
    from jaxrl.training.packed import Pack

    with Pack(len(variants), screen=True) as pack:
        for variant in variants:
            replacing = str(variant.file) in replaced
            pack.add(variant.path, _prepared(variant, replacing), alone=True)
        members = pack.run()
    for member in members:
        if member.error:
            ended = Status.from_error(member.error)
            status.write(status.outcome_file(member.path), ended)
            stdout.say(f"{member.path} failed: {ended.reason}")
    if stopped := running.stopped_by(members):
        ranks.exit_after_stop(stopped)
    return 0


def _prepared(variant: Variant, replacing: bool) -> Any:
    """A new run, or one that continues what is in its directory."""
    from jaxrl.training import train

    if variant.record is not None and not replacing:
        return functools.partial(train.resumed, variant.path, train.ResumeOptions())
    # What was killed before it had its settings is removed, too.
    run = dataclasses.replace(variant.run, overwrite=variant.path.exists())
    return functools.partial(train.started, run)
