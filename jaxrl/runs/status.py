"""The status of a run as data, for whoever asks: `ls`, `grid`, `search`, `report`.

A run keeps `status.json` in its directory: it writes it when it starts and when it
ends, so a run that is "running" there while nobody holds its lock was killed. A run of
a grid may end before it has a directory, so its process also writes its outcome, in
the same form, to a file beside its settings. `reason` is for people; no program reads
it. Free of JAX, as all that reads runs.
"""

import contextlib
import dataclasses
import json
import os
import platform
import time
from pathlib import Path
from signal import SIGINT, Signals
from types import TracebackType
from typing import Any, Literal, Self, get_args

from jaxrl import files
from jaxrl.errors import Stopped, UserError
from jaxrl.processes.signals import signal_name

FILE = "status.json"
REFUSED = 2  # exit code: the user must change something
FAILED = 1  # exit code: something went wrong
LONGEST = 100_000  # bytes of a status that is read
TEXTS = ("reason", "signal", "stopped_by", "host")
State = Literal["running", "finished", "failed", "pruned", "interrupted"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Status:
    """How a run is doing, or how it ended."""

    state: State
    reason: str = ""
    """Why it ended early, in words for people."""
    signal: str = ""
    """Name of the signal that ended it."""
    stopped_by: str = ""
    """The callback or setting that finished it before its last step."""
    exit_code: int | None = None
    step: int = 0
    """Environment steps taken when this was written."""
    total_steps: int = 0
    attempt: int = 0
    """How often the run was started or resumed."""
    pid: int = dataclasses.field(default_factory=os.getpid)
    host: str = dataclasses.field(default_factory=platform.node)
    time: float = dataclasses.field(default_factory=time.time)
    """When this was written, in seconds since 1970."""

    @classmethod
    def from_error(cls, error: BaseException) -> Self:
        """Of a process or a run that an error ends."""
        if isinstance(error, Stopped):
            return cls.from_signal(error.signal)
        if isinstance(error, KeyboardInterrupt):
            return cls.from_signal(SIGINT)
        if isinstance(error, SystemExit):
            given = 0 if error.code is None else error.code
            left = given if isinstance(given, int) else FAILED
            reason = f"the process called exit({error.code})"
            return cls(state="failed", reason=reason, exit_code=left)
        code = REFUSED if isinstance(error, UserError) else FAILED
        return cls(state="failed", reason=describe(error), exit_code=code)

    @classmethod
    def from_signal(cls, number: Signals) -> Self:
        """Of a run that was asked to stop."""
        return cls(
            state="interrupted",
            reason=f"stopped by {number.name}",
            signal=number.name,
            exit_code=128 + number,
        )

    @classmethod
    def from_exit_code(cls, code: int, reason: str = "") -> Self:
        """Of a process that left no outcome; below 0, a signal killed it."""
        if code == 0:
            return cls(state="finished", exit_code=0)
        if code > 0:
            reason = reason or f"exited with code {code}"
            return cls(state="failed", reason=reason, exit_code=code)
        name = signal_name(-code)
        reason, code = reason or f"killed by {name}", 128 - code
        return cls(state="failed", reason=reason, signal=name, exit_code=code)


def describe(error: BaseException) -> str:
    """In a line; the name of an error that nobody expected tells the most."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f" ({error.filename})" if error.filename else "")
    text = " ".join(str(error).split())
    if isinstance(error, UserError | FloatingPointError | OSError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def outcome_file(run: Path) -> Path:
    """Where the process of a grid's run says how it ended."""
    return run.with_name(f"{run.name}.json")


def write(file: Path, status: Status) -> None:
    """At every moment, a reader finds the old one or this one."""
    text = json.dumps(dataclasses.asdict(status), indent=2) + "\n"
    files.write_atomically(file, text)


def update(run: Path, **changes: Any) -> None:
    """Changes the status of a run that has ended."""
    known = read(run / FILE) or Status(state="interrupted")
    changes = {"time": time.time()} | changes
    write(run / FILE, dataclasses.replace(known, **changes))


def note_reason(run: Path, before: Status | None, code: int, reason: str) -> None:
    """Of a run that was killed since `before`, from the process that started it."""
    known = read(run / FILE)
    if known and known != before and known.state == "running":
        update(run, state="interrupted", reason=reason, exit_code=code)


def read(file: Path) -> Status | None:
    """None where there is none, or not one of ours."""
    try:
        known = json.loads(files.read_bytes(file, LONGEST, inside=file.parent))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(known, dict):
        return None
    names = [field.name for field in dataclasses.fields(Status)]
    given = {name: known[name] for name in names if name in known}
    return Status(**given) if _is_sound(given) else None


def _is_sound(given: dict[str, Any]) -> bool:
    """Whether the values are of the right kind; a stranger may have written them."""
    if given.get("state") not in get_args(State):
        return False
    texts = [given.get(name, "") for name in TEXTS]
    counts = [given.get(name, 0) for name in ("step", "total_steps", "attempt", "pid")]
    code, written = given.get("exit_code"), given.get("time", 0.0)
    return (
        all(isinstance(text, str) for text in texts)
        and all(type(count) is int and abs(count) < 10**18 for count in counts)
        and (code is None or type(code) is int)
        and type(written) in (int, float)
    )


class Attempt:
    """One attempt at a run: keeps its status up to date from start to end.

    What the user must change is no failure of the run, so its status stays what it was
    `before`. Of several ranks, one writes; the others do so only if they fail.
    """

    def __init__(self, run: Path, before: Status | None, writes: bool = True) -> None:
        self._run, self._before, self._writes = run, before, writes
        self._started = False
        self.step = 0

    def start(self, step: int, total_steps: int) -> None:
        """From here on, an error is a failure of this run."""
        self._started, self.step = True, step
        attempt = 1 + (self._before.attempt if self._before else 0)
        if self._writes:
            running = Status(
                state="running", step=step, total_steps=total_steps, attempt=attempt
            )
            write(self._run / FILE, running)

    def end(self, outcome: Status) -> None:
        """Notes how it ended, at the step that it has reached."""
        if self._writes or outcome.state == "failed":
            self._note(outcome)

    def _note(self, outcome: Status) -> None:
        known = read(self._run / FILE)
        status = dataclasses.replace(
            outcome,
            step=max(self.step, known.step if known else 0),
            total_steps=known.total_steps if known else 0,
            attempt=known.attempt if known else 1,
        )
        write(self._run / FILE, status)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        resumed = self._before is not None
        if error is None or not (self._started or resumed):
            return
        exists = (self._run / "config.yaml").exists()
        with contextlib.suppress(OSError):  # the disk may be full; the error says more
            if exists and not isinstance(error, UserError):
                self._note(Status.from_error(error))
            elif self._started and self._writes:
                self._restore()

    def _restore(self) -> None:
        if self._before is not None:
            write(self._run / FILE, self._before)
        else:
            (self._run / FILE).unlink(missing_ok=True)
