"""Calls the callbacks of a run, and keeps their state in its checkpoints."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.callbacks import Context, Stop, StopAtReturn, StopWithoutImprovement
from jaxrl.errors import UserError
from jaxrl.logging.logger import EpochLogger
from jaxrl.parallel import mpi
from jaxrl.runs import status
from jaxrl.runs.spec import Run
from jaxrl.training.user_code import OnEpoch, UserCode

NOT_OURS = UserError("the checkpoint is not of this run (callbacks)")


class CallbackFailed(RuntimeError):
    """An error in a callback, which ends the run."""


class Stopped(NamedTuple):
    """Who asked to finish the run, and why."""

    by: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Callbacks:
    """Those that the settings of a run ask for, by their setting, and a user's own."""

    built_in: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    own: Sequence[Any] | None = None
    on_epoch: OnEpoch | None = None

    @classmethod
    def from_run(cls, run: Run, user: UserCode) -> "Callbacks":
        built_in: dict[str, Any] = {}
        if run.stop_return < float("inf"):
            built_in["stop_return"] = StopAtReturn(run.stop_return)
        if epochs := run.stop_without_improvement:
            built_in["stop_without_improvement"] = StopWithoutImprovement(epochs)
        return cls(built_in, user.callbacks, user.on_epoch)

    def start(self, context: Context) -> None:
        self._call_all("on_start", context)

    def end(self, context: Context) -> None:
        self._call_all("on_end", context)

    @property
    def need_row(self) -> bool:
        """Whether any looks at the row of an epoch."""
        return any(hasattr(callback, "on_epoch") for _, callback in self._named())

    def epoch(self, context: Context, log: EpochLogger) -> Stopped | None:
        """Adds their metrics to the log; whether one asks to stop, on all ranks."""
        asked: list[Stopped] = []
        for name, callback in self._named():
            if not hasattr(callback, "on_epoch"):
                continue
            with _naming(f"{name}.on_epoch"):
                returned = callback.on_epoch(context)
                _take(returned, name, log, asked)
        return _agreed(asked)

    def call_function(self, context: Context, log: EpochLogger) -> Stopped | None:
        """The function `on_epoch(state, step)`."""
        asked: list[Stopped] = []
        if self.on_epoch is not None:
            returned = self.on_epoch(context.state, context.step)
            _take(returned, "on_epoch", log, asked)
        return _agreed(asked)

    def _named(self) -> Iterator[tuple[str, Any]]:
        yield from self.built_in.items()
        yield from ((_name(callback), callback) for callback in self.own or ())

    def _call_all(self, method: str, context: Context) -> None:
        with mpi.paused():
            for name, callback in self._named():
                if hasattr(callback, method):
                    with _naming(f"{name}.{method}"):
                        returned = getattr(callback, method)(context)
                        if method == "on_start" and isinstance(returned, Stop):
                            raise ValueError("only on_epoch can return jaxrl.STOP")

    # State

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        own = [[_name(callback), _saved(callback)] for callback in self.own or ()]
        built_in = {name: _saved(callback) for name, callback in self.built_in.items()}
        return {"built_in": built_in, "own": own}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Puts back what `state` gave; the checkpoint may be a stranger's."""
        built_in, own = _parts(saved)
        for name, callback in self.built_in.items():
            _restore(callback, built_in.get(name))
        for callback, (_, state) in zip(self.own or (), own, strict=False):
            _restore(callback, state)

    def check_saved(self, saved: Mapping[str, Any]) -> None:
        """Refuses a run whose callbacks have saved a state that nobody would take.

        An empty list of callbacks drops it.
        """
        _, before = _parts(saved)
        stateful = [i for i, (_, state) in enumerate(before) if state is not None]
        if not stateful or (self.own is not None and len(self.own) == 0):
            return
        now = [_name(callback) for callback in self.own or ()]
        if all(now[i : i + 1] == [before[i][0]] for i in stateful):
            return
        raise UserError(
            f"the run was started with the callbacks {_listed(before)} and their state "
            f"is in its checkpoint, but now there {_count(now)}; continue it in Python "
            "with jaxrl.resume(directory, callbacks=[...]), in the same order, or drop "
            "them with callbacks=[]"
        )


def _parts(saved: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """What `Callbacks.state` gave: of built-in callbacks by name, of others in order.

    Checkpoints of earlier versions have neither.
    """
    try:
        own = [(str(name), state) for name, state in saved.get("own", ())]
        return dict(saved.get("built_in", {})), own
    except (TypeError, ValueError, AttributeError):
        raise NOT_OURS from None


def _listed(before: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(name for name, _ in before)


def _count(now: Sequence[str]) -> str:
    return f"are {', '.join(now)}" if now else "are none"


def _take(returned: Any, name: str, log: EpochLogger, asked: list[Stopped]) -> None:
    """What an `on_epoch` returned: metrics, a request to stop, or None."""
    if isinstance(returned, Stop):
        asked.append(Stopped(name, returned.reason))
        returned = returned.metrics
    log.store_own({} if returned is None else returned)


def _agreed(asked: Sequence[Stopped]) -> Stopped | None:
    """The first request of rank 0."""
    sent = json.dumps(asked[0] if asked else None).encode()
    decided = json.loads(mpi.bcast_bytes(sent))
    return Stopped(*decided) if decided else None


@contextlib.contextmanager
def _naming(method: str) -> Iterator[None]:
    """Adds the name of a callback's method to what it raises."""
    try:
        yield
    except Exception as error:
        reason = status.describe(error)
        raise CallbackFailed(f"the callback {method} failed: {reason}") from error


def _name(callback: Any) -> str:
    return type(callback).__name__


# What a callback saves: plain values and arrays, in a form that nothing in it can be
# taken for an array's place in the checkpoint.


def _saved(callback: Any) -> Any:
    if not _has_state(callback):
        return None
    with _naming(f"{_name(callback)}.state"):
        return ["state", _encoded(callback.state())]


def _restore(callback: Any, saved: Any) -> None:
    if saved is not None and _has_state(callback):
        try:
            state = _decoded(saved[1])
        except (TypeError, ValueError, LookupError):
            raise NOT_OURS from None
        with _naming(f"{_name(callback)}.restore"):
            callback.restore(state)


def _has_state(callback: Any) -> bool:
    return all(callable(getattr(callback, x, None)) for x in ("state", "restore"))


def _encoded(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | jax.Array):
        array = np.array(value)
        if array.dtype.kind in "biuf":
            return ["array", array]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return ["dict", [[key, _encoded(item)] for key, item in value.items()]]
    if isinstance(value, list | tuple):
        return ["list", [_encoded(item) for item in value]]
    raise TypeError(
        f"{value!r} cannot be saved, only numbers, texts, lists, dicts with texts as "
        "keys, and arrays of numbers"
    )


def _decoded(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, content = value
    if kind == "array":
        return np.array(content)
    if kind == "dict":
        return {key: _decoded(item) for key, item in content}
    return [_decoded(item) for item in content]
