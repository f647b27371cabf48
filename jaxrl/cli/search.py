"""`jaxrl search FILE.yaml [--trials N] [--jobs N] ...`."""

import dataclasses

from jaxrl.cli import flags
from jaxrl.experiments import search, search_file
from jaxrl.experiments.runner import Options


def main(arguments: list[str]) -> int:
    parser = flags.Parser(
        "search FILE.yaml [--trials N] [--jobs N] ...",
        "Searches for good settings; each trial is a run like any other. A second go "
        "goes on where the first was left.",
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="what is searched, in YAML")
    add("--trials", type=flags.count, metavar="N", help="how many, in all")
    add("--jobs", type=flags.count, default=0, metavar="N", help="at a time [cores]")
    add("--out", metavar="DIR", help="directory that holds searches [runs]")
    limit = "stop a trial after so long, as in 90s, 30m or 2h"
    add("--time_limit", type=flags.duration, default=0, metavar="TIME", help=limit)
    given = parser.parse(arguments)
    asked = search_file.read(given.file)
    changes = {"trials": given.trials, "out": given.out}
    changes = {name: value for name, value in changes.items() if value is not None}
    asked = dataclasses.replace(asked, **changes)
    options = Options(out=asked.out, jobs=given.jobs, time_limit=given.time_limit)
    return _report(search.run(asked, options))


def _report(found: search.SearchResult) -> int:
    if found.importance:
        print("\nimportance of each setting:")
        for name, share in found.importance.items():
            print(f"  {name:20} {100 * share:3.0f} %  {'█' * round(30 * share)}")
    if found.settings:
        print(f"\nthe best return is {found.value:.1f}, in {found.directory}")
        print(f"  {found.command}")
    if not found.stopped_by:
        return 0
    print("run the same command again to go on")
    return 128 + found.stopped_by
