"""`jaxrl search FILE.yaml [--trials N] [--jobs N] ...`."""

import dataclasses

from jaxrl.cli import options
from jaxrl.cli.stdout import say
from jaxrl.experiments import search, search_file
from jaxrl.experiments.runner import Options
from jaxrl.runs.reading import LAST


def main(arguments: list[str]) -> int:
    given = options.parser("search").parse(arguments)
    asked = search_file.read(given.file)
    changes = {"trials": given.trials, "out": given.out}
    changes = {name: value for name, value in changes.items() if value is not None}
    asked = dataclasses.replace(asked, **changes)
    limits = Options(out=asked.out, jobs=given.jobs, time_limit=given.time_limit)
    return _report(search.run(asked, limits))


def _report(found: search.SearchResult) -> int:
    if found.importance:
        say("\nimportance of each setting:")
        for name, share in found.importance.items():
            say(f"  {name:20} {100 * share:3.0f} %  {'█' * round(30 * share)}")
    if found.settings:
        mean = f"mean of the last {LAST} epochs, last{LAST} in jaxrl ls"
        say(f"\nthe best return is {found.value:.1f} ({mean}), in {found.directory}")
        say(f"  {found.command}")
    if not found.stopped_by:
        return 0
    say("run the same command again to continue")
    return 128 + found.stopped_by
