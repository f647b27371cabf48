"""How a user's mistake is told: in a sentence, with the nearest right word."""

import difflib
from collections.abc import Iterable


class Refused(ValueError):
    """A user's mistake, to be shown without a traceback."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' if there is something near."""
    near = difflib.get_close_matches(name.replace("-", "_"), list(known), 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
