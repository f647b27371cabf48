"""A variant and the process that runs it, from its start to its end."""

import contextlib
import dataclasses
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np

from jaxrl.experiments.function_variant import FunctionVariant
from jaxrl.experiments.live_table import Line
from jaxrl.experiments.variant import Variant
from jaxrl.logging.columns import STEPS
from jaxrl.processes import subprocesses
from jaxrl.runs import reading, status
from jaxrl.runs.status import Status

GRACE = 30.0  # seconds to save in, after which a run is killed
FULL = 100_000  # bytes that are left on a disk, below which it counts as full
State = Literal["waiting", "running", "finished", "failed", "stopped", "pruned"]


class Process(Protocol):
    """What a job asks of its process, as in `subprocess.Popen`."""

    @property
    def returncode(self) -> Any: ...

    def poll(self) -> int | None: ...

    def send_signal(self, sig: Any) -> None: ...

    def kill(self) -> None: ...


class Stop(NamedTuple):
    """Why a run is asked to end before its last step."""

    reason: str
    state: Literal["stopped", "pruned"] = "stopped"
    """What it counts as then; a pruned run is not resumed."""


@dataclasses.dataclass
class Job:
    """A variant, its process and how it ended."""

    variant: Variant | FunctionVariant
    state: State
    changes: list[str]
    """How an earlier run in its directory differs from it."""
    reason: str = ""
    """Why it is not running, for people."""
    attempts: int = 0
    process: Process | None = None
    _since: float = 0.0
    _time_before: float = 0.0  # seconds of training before this attempt
    _wall: float = 0.0  # of this attempt, once it has ended
    _stop: Stop | None = None
    _stopped_at: float = 0.0
    _killed: bool = False

    @classmethod
    def from_variant(cls, variant: Variant | FunctionVariant) -> Self:
        """In the state that the variant's directory is in."""
        changes = variant.changes_on_disk()
        over = not changes and variant.is_finished
        return cls(variant, "finished" if over else "waiting", changes)

    def start(self, threads: int = 1, launcher: Sequence[str] = ()) -> None:
        """As a new run, or from where it was left; it fails on a full disk."""
        variant, outcome = self.variant, status.outcome_file(self.variant.path)
        program = variant.program(bool(self.changes))
        self.begin(
            lambda: subprocesses.start(
                program, self.output, outcome, threads, launcher, variant.environment
            )
        )

    def begin(self, launch: Callable[[], Process]) -> None:
        """An attempt in the process that `launch` returns."""
        self._since, self._time_before = time.monotonic(), self._trained()
        self._stop, self._killed, self._wall = None, False, 0.0
        self.attempts += 1
        self.process = None
        try:
            self.write()
            self.process = launch()
        except OSError as error:
            self.state, self.reason = "failed", status.describe(error)
        else:
            self.state, self.changes = "running", []

    def write(self) -> None:
        """What its process reads."""
        self.variant.write()
        self.remove_outcome()

    @property
    def output(self) -> Path:
        """The file with what its process prints, which other jobs may share."""
        own = self.variant.path.with_name(f"{self.variant.name}.txt")
        return getattr(self.process, "output", own)

    @property
    def is_refused(self) -> bool:
        """Whether the user must change something before it can run."""
        if self.process is not None and self.process.returncode == status.REFUSED:
            return True
        ended = self.outcome
        return ended is not None and ended.exit_code == status.REFUSED

    def remove_outcome(self) -> None:
        """Removes that of an earlier attempt."""
        status.outcome_file(self.variant.path).unlink(missing_ok=True)

    @property
    def outcome(self) -> Status | None:
        """How the process of this attempt says it ended; None if it has not."""
        return status.read(status.outcome_file(self.variant.path))

    def note_outcome(self, ended: Status) -> None:
        """For a process that could not write its outcome itself."""
        self.variant.path.parent.mkdir(parents=True, exist_ok=True)
        status.write(status.outcome_file(self.variant.path), ended)

    def stop(self, why: Stop) -> None:
        """Asks it to save and end; kills it if it takes too long."""
        assert self.process is not None
        if self._stop is None:
            self._stop, self._stopped_at = why, time.monotonic()
            # Not SIGTERM, on which srun kills what it started; this it passes on.
            self.process.send_signal(signal.SIGUSR1)
        elif time.monotonic() - self._stopped_at > GRACE:
            self._killed = True
            self.process.kill()

    def poll(self, time_limit: float) -> None:
        """Notes its end; stops it where it has run too long."""
        assert self.process is not None
        code = self.process.poll()
        if code is None:
            if self._stop:
                self.stop(self._stop)
            elif time_limit and time.monotonic() - self._since > time_limit:
                self.stop(Stop(f"took longer than {time_limit:g} s"))
            return
        self._wall = time.monotonic() - self._since
        over = self.variant.is_finished
        # A request to stop may kill a run that is already over.
        if over and (code == 0 or self._stop):
            self.state, self.reason = "finished", ""
        elif self._stop:
            self.state, self.reason = self._stop.state, self._stop_reason(self._stop)
        else:
            self.state, self.reason = "failed", self._failure_reason(code)

    def _stop_reason(self, why: Stop) -> str:
        parts = [why.reason]
        if self._killed:
            parts.append("did not save in time and was killed")
        if why.state == "stopped":
            parts.append("rerun to continue")
        return "; ".join(parts)

    def _failure_reason(self, code: int) -> str:
        """By its own account, or else by its exit code."""
        ended = self.outcome if code >= 0 else None
        if ended is None:
            ended = Status.from_exit_code(code, self._full_disk(code))
            if not code:  # it left by itself, but is not finished
                ended = dataclasses.replace(ended, state="failed")
            with contextlib.suppress(OSError):  # the disk may be full
                self.note_outcome(ended)
        return ended.reason or f"exited with code {code} before its last step"

    def _full_disk(self, code: int) -> str:
        """The likely reason of a process that could not write its own; else empty."""
        full = shutil.disk_usage(self.variant.path.parent).free < FULL
        if code <= 0 or not full:
            return ""
        return f"exited with code {code}; the disk of {self.variant.path} is full"

    def line(self) -> Line:
        """As the table shows it."""
        variant, output = self.variant, str(self.output)
        line = Line(variant.name, self.state, variant.total_steps, self.reason, output)
        line = line._replace(attempt=max(self.attempts, 1), wall=self._wall_time())
        progress = {} if self.state == "waiting" else self.variant.progress
        if not progress:
            return line
        returns = reading.returns(progress)  # a user's own function may log none
        return line._replace(
            steps=int(progress[STEPS][-1]),
            returned=float(returns[-1]) if len(returns) else None,
            seconds=_seconds(progress),
        )

    def _wall_time(self) -> float:
        """Seconds with those of its start-up; 0 if it was not started here."""
        if not self.attempts:
            return 0.0
        own = self._wall or time.monotonic() - self._since
        return self._time_before + own

    def _trained(self) -> float:
        """Seconds of training so far; 0 of a run that will be replaced."""
        progress = {} if self.changes else self.variant.progress
        return _seconds(progress)


def _seconds(progress: Mapping[str, np.ndarray]) -> float:
    """Of training so far; 0 where the table does not say."""
    return float(progress["Time"][-1]) if "Time" in progress else 0.0
