"""`jaxrl resume DIR [--steps N] [--wandb] [--changed-code]`."""

from jaxrl.cli import options, running
from jaxrl.processes import mpirun
from jaxrl.runs import reading


def main(arguments: list[str]) -> int:
    given = options.parser("resume").parse(arguments)
    record = reading.record(given.dir)
    running.announce_code(record)
    threads = running.fix_threads(record)
    if ranks := mpirun.ranks_to_start(record.num_procs):
        return running.launched(["resume", *arguments], record.path, ranks, threads)
    running.cache_compilations()
    from jaxrl.training import train

    result = train.resume(
        record.path, given.steps, wandb=given.wandb, changed_code=given.changed_code
    )
    return running.report(
        result,
        record.config["env"],
        str(record.config.get("networks", "")),
        given.wandb,
    )
