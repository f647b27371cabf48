"""`jaxrl report PATH... [-o report.html]`."""

import sys

from jaxrl.cli import options
from jaxrl.cli.flags import writing
from jaxrl.show import page, report


def main(arguments: list[str]) -> int:
    given = options.parser("report").parse(arguments)
    found = report.collect_runs(given.paths)
    with writing(given.output, (".html",)) as path:
        content = report.page_data(found, given.output.absolute().parent)
        path.write_text(page.render(content), "utf-8", errors="replace")
    for run in found.damaged:
        print(f"jaxrl: {run.cause}; listed as not finished", file=sys.stderr)
    count = len(content["runs"])
    print(f"{given.output}: {count} {'run' if count == 1 else 'runs'}")
    return 0
