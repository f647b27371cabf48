"""`jaxrl plot PATH... [-y COLUMN ...]`."""

import dataclasses
import sys
from pathlib import Path

from jaxrl.cli import options
from jaxrl.show import picture, plot
from jaxrl.show.writing import writing


def main(arguments: list[str]) -> int:
    given = options.parser("plot").parse(arguments)
    names = [field.name for field in dataclasses.fields(picture.Options)]
    chosen = picture.Options(**{name: getattr(given, name) for name in names})
    made = picture.picture(given.paths, chosen, print, _note)
    if given.output or not given.show:
        output = given.output or Path("suite.png" if given.suite else "curves.png")
        with writing(output, plot.SUFFIXES) as path:
            plot.save(path, plot.figure(made.size, made.drawing))
        print(f"{output}: {made.runs} {'run' if made.runs == 1 else 'runs'}")
    if given.show:
        plot.show(made.size, made.drawing)
    return 0


def _note(text: str) -> None:
    print(f"jaxrl: {text}", file=sys.stderr)
