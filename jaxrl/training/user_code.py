"""What a user gives from Python that settings cannot hold."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jaxrl.callbacks import METHODS
from jaxrl.envs import GivenEnv
from jaxrl.errors import UserError
from jaxrl.maths import user_networks

OnEpoch = Callable[[Any, int], dict[str, Any] | None]
"""`on_epoch(state, step)` may return metrics to log in the epoch's row."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class UserCode:
    """Objects of a user that a run calls."""

    on_epoch: OnEpoch | None = None
    env: GivenEnv | None = None
    """What makes or is the environment, if no name finds it."""
    callbacks: Sequence[Any] | None = None
    """Objects as in `jaxrl.callbacks`."""
    networks: Any = None
    """Networks, or a callable that returns them for an EnvSpec."""

    def check(self) -> None:
        """Refuses, before anything is removed, what would fail only later."""
        if self.on_epoch is not None and not callable(self.on_epoch):
            raise UserError(
                f"on_epoch is {self.on_epoch!r}, but must be a function or None"
            )
        if not isinstance(self.callbacks, list | tuple | None):
            raise UserError(
                f"callbacks is {self.callbacks!r}, but must be a list of objects"
            )
        for place, callback in enumerate(self.callbacks or ()):
            if fault := _fault(callback):
                raise UserError(f"callbacks[{place}] {fault}")

    @property
    def given(self) -> list[str]:
        """The names of what the user handed over."""
        own = dataclasses.fields(self)
        return [x.name for x in own if getattr(self, x.name)]


def _fault(callback: Any) -> str:
    """What is wrong with a callback; empty if nothing is."""
    if isinstance(callback, type):
        return f"is a class; make an object of it, as in {callback.__name__}()"
    kind = type(callback).__name__
    found = [name for name in METHODS if hasattr(callback, name)]
    if not found:
        return f"is a {kind}, but must have one or more of {', '.join(METHODS)}"
    for name in found:
        if not callable(getattr(callback, name)):
            return f"is a {kind} whose {name} is not a method"
    for name, other in ("state", "restore"), ("restore", "state"):
        has, lacks = (callable(getattr(callback, x, None)) for x in (name, other))
        if has and not lacks:
            return f"is a {kind} with {name}() but without {other}(); it needs both"
    return ""


NONE = UserCode()


def named_networks(networks: Any) -> dict[str, str]:
    """The setting of a run that says which networks it has."""
    if networks is None or isinstance(networks, str):
        return {"networks": networks} if networks else {}
    try:
        return {"networks": user_networks.name_of(networks)}
    except ValueError as error:
        raise UserError(str(error)) from None
