"""`jaxrl report PATH... [-o report.html]`."""

import sys

from jaxrl.cli import options
from jaxrl.show import report


def main(arguments: list[str]) -> int:
    given = options.parser("report").parse(arguments)
    note = lambda text: print(f"jaxrl: {text}", file=sys.stderr)  # noqa: E731
    count = report.write(given.paths, given.output, note)
    print(f"{given.output}: {count} {'run' if count == 1 else 'runs'}")
    return 0
