"""`jaxrl report PATH... [-o report.html]`."""

import sys

from jaxrl.cli import flags
from jaxrl.show import page, report


def main(arguments: list[str]) -> int:
    parser = flags.Parser(
        "report PATH... [-o report.html]",
        "Writes one page for the browser, which needs no network: a table of the runs, "
        "their curves, settings, machines and videos, and why some failed.",
    )
    flags.add_paths(parser)
    flags.add_output(parser, "report.html")
    given = parser.parse(arguments)
    found = report.collect_runs(given.paths)
    with flags.writing(given.output, (".html",)) as path:
        content = report.page_data(found, given.output.absolute().parent)
        path.write_text(page.render(content), "utf-8", errors="replace")
    for run in found.damaged:
        print(f"jaxrl: {run.cause}; listed as not finished", file=sys.stderr)
    count = len(content["runs"])
    print(f"{given.output}: {count} {'run' if count == 1 else 'runs'}")
    return 0
