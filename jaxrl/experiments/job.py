"""A variant on its way: a process of its own, from its start to its end."""

import dataclasses
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Literal, NamedTuple, Self

from jaxrl.experiments.live_table import Line
from jaxrl.experiments.variant import Variant
from jaxrl.processes import subprocesses
from jaxrl.runs import reading, status
from jaxrl.runs.status import Status

GRACE = 30.0  # seconds to save in, after which a run is killed
State = Literal["waiting", "running", "finished", "failed", "stopped", "pruned"]


class Stop(NamedTuple):
    """Why a run is asked to end before its last step."""

    reason: str
    state: Literal["stopped", "pruned"] = "stopped"
    """What it counts as then; a pruned run is not resumed."""


@dataclasses.dataclass
class Job:
    """A variant, its process and how it ended."""

    variant: Variant
    state: State
    changes: list[str]
    """How an earlier run in its directory differs from it."""
    reason: str = ""
    """Why it is not running, for people."""
    attempts: int = 0
    process: subprocess.Popen | None = None
    _since: float = 0.0
    _stop: Stop | None = None
    _stopped_at: float = 0.0
    _killed: bool = False

    @classmethod
    def from_variant(cls, variant: Variant) -> Self:
        """In the state that the variant's directory is in."""
        record = variant.record
        changes = variant.changes(record) if record else []
        over = record is not None and not changes and record.state == "finished"
        return cls(variant, "finished" if over else "waiting", changes)

    def start(self, threads: int = 1, launcher: Sequence[str] = ()) -> None:
        """As a new run, or from where it was left."""
        path, output = self.variant.path, self.variant.output
        self.variant.write()
        words = ["train", "--config", str(self.variant.file)]
        if self.variant.record is not None and not self.changes:
            words = ["resume", str(path)]
        elif path.exists():  # an earlier run, or one killed before it had its settings
            words.append("--overwrite")
        self.forget_outcome()
        outcome = status.outcome_file(path)
        self.process = subprocesses.start(words, output, outcome, threads, launcher)
        self.state, self._since = "running", time.monotonic()
        self._stop, self._killed, self.changes = None, False, []
        self.attempts += 1

    def forget_outcome(self) -> None:
        """Removes that of an earlier attempt."""
        status.outcome_file(self.variant.path).unlink(missing_ok=True)

    @property
    def outcome(self) -> Status | None:
        """How the process of this attempt says it ended; None if it has not."""
        return status.read(status.outcome_file(self.variant.path))

    def note_outcome(self, ended: Status) -> None:
        """In the place of a process that could not say it itself."""
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
        record = self.variant.record
        over = record is not None and record.state == "finished"
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
            ended = Status.from_exit_code(code)
            self.note_outcome(ended)
        return ended.reason or f"exited with code {code} before its last step"

    def line(self) -> Line:
        """As the table shows it."""
        run, output = self.variant.run, str(self.variant.output)
        line = Line(self.variant.name, self.state, run.total_steps, self.reason, output)
        line = line._replace(attempt=max(self.attempts, 1))
        progress = {} if self.state == "waiting" else self.variant.progress
        if not progress:
            return line
        return line._replace(
            steps=int(progress["TotalEnvInteracts"][-1]),
            returned=float(reading.returns(progress)[-1]),
            seconds=float(progress["Time"][-1]),
        )
