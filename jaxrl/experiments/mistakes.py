"""Mistakes in a grid or a search, each with its line, reported together."""

from collections.abc import Iterable, Mapping

from jaxrl.errors import UserError
from jaxrl.yaml_lines import Place


class Mistakes:
    """Those found so far; without `lines`, as on a command line, they have none."""

    def __init__(
        self,
        lines: Mapping[Place, int] | None = None,
        found: Iterable[tuple[int, str]] = (),
    ) -> None:
        self._lines, self._found = lines or {}, list(found)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, place: Place, sentence: str) -> None:
        """Notes a mistake at a place of the data; "" is none."""
        line = self.line(place)
        if sentence and (line, sentence) not in self._found:
            self._found.append((line, sentence))

    def line(self, place: Place) -> int:
        """Of the place or what it is part of; 0 where there is none."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 0) if place else 0

    def raise_any(self, where: str) -> None:
        """Raises with all of them, a line each, if there are any.

        `where` is the file; "" if they are in the command.
        """
        lines = [
            f"line {line}: {sentence}" if line else sentence
            for line, sentence in sorted(self._found)
        ]
        if len(lines) == 1:
            raise UserError(f"{where}: {lines[0]}" if where else lines[0])
        if lines:
            head = f"{where} has {len(lines)} mistakes, and nothing was started:"
            raise UserError("\n  ".join([head, *lines]))
