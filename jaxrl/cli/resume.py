"""`jaxrl resume DIR [--steps N] [--changed-code]`."""

from jaxrl.cli import options, running
from jaxrl.runs import reading


def main(arguments: list[str]) -> int:
    given = options.parser("resume").parse(arguments)
    record = reading.record(given.dir)
    running.announce_code(record)
    threads = running.fix_threads(record)
    if ranks := running.ranks_to_start(record.num_procs):
        return running.launched(["resume", *arguments], ranks, threads)
    running.cache_compilations()
    from jaxrl.training import train

    changed = given.changed_code
    return running.report(train.resume(record.path, given.steps, changed_code=changed))
