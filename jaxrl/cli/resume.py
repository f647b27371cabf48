"""`jaxrl resume DIR [--steps N]`."""

from jaxrl.cli import flags, running
from jaxrl.runs import reading


def main(arguments: list[str]) -> int:
    parser = flags.Parser(
        "resume DIR [--steps N]",
        "Goes on from the last checkpoint of a run, bit for bit as if it had never "
        "stopped.",
    )
    parser.add_argument("dir", metavar="DIR", help="directory of a run")
    parser.add_argument(
        "--steps",
        type=flags.count,
        metavar="N",
        help="steps of the whole run, if it is to end later than it was meant to",
    )
    given = parser.parse(arguments)
    record = reading.record(given.dir)
    threads = running.fix_threads(record)
    if ranks := running.ranks_to_start(record.num_procs):
        return running.launched(["resume", *arguments], ranks, threads)
    running.cache_compilations()
    from jaxrl.training import train

    return running.report(train.resume(record.path, given.steps))
