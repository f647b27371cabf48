"""What a user hands over from Python, which settings cannot hold."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxrl.errors import UserError
from jaxrl.maths import user_networks

OnEpoch = Callable[[Any, int], dict[str, Any] | None]
"""`on_epoch(state, step)` may return metrics to log in the epoch's row."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class UserCode:
    """Objects of a user that take part in a run."""

    on_epoch: OnEpoch | None = None
    networks: Any = None
    """Networks, or a callable that returns them for an EnvSpec."""

    def check(self) -> None:
        """Refuses, before anything is removed, what would fail only later."""
        if self.on_epoch is not None and not callable(self.on_epoch):
            raise UserError(
                f"on_epoch is {self.on_epoch!r}, but must be a function or None"
            )


NONE = UserCode()


def named_networks(networks: Any) -> dict[str, str]:
    """The setting of a run that says which networks it has."""
    if networks is None or isinstance(networks, str):
        return {"networks": networks} if networks else {}
    try:
        return {"networks": user_networks.name_of(networks)}
    except ValueError as error:
        raise UserError(str(error)) from None
