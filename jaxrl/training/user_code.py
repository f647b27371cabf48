"""What a user hands over from Python, which settings cannot hold."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxrl.errors import UserError

OnEpoch = Callable[[Any, int], dict[str, Any] | None]
"""`on_epoch(state, step)` may return metrics to log in the epoch's row."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class UserCode:
    """Objects of a user that take part in a run."""

    on_epoch: OnEpoch | None = None

    def check(self) -> None:
        """Refuses, before anything is removed, what would fail only later."""
        if self.on_epoch is not None and not callable(self.on_epoch):
            raise UserError(
                f"on_epoch is {self.on_epoch!r}, but must be a function or None"
            )

    @property
    def given(self) -> list[str]:
        """The names of what the user handed over."""
        own = dataclasses.fields(self)
        return [x.name for x in own if getattr(self, x.name) != x.default]


NONE = UserCode()
