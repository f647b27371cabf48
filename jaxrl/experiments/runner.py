"""Runs variants side by side, each as a process of its own.

What has become of a variant is told from its directory, so a second go skips what is
finished, resumes what was cut and tries again what failed.
"""

import contextlib
import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol, Self

from jaxrl.errors import UserError
from jaxrl.experiments.live_table import Line, LiveTable
from jaxrl.experiments.variant import Variant
from jaxrl.processes import subprocesses
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import directory, failures, reading

REFUSED = 2  # the exit code of what would be refused again
SHOWN = 10  # refusals of one kind
GRACE = 30.0  # seconds to save in, after which a run is killed
State = Literal["waiting", "running", "finished", "failed", "stopped"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How variants are run."""

    out: str = "runs"
    """Directory that holds the grids."""
    jobs: int = 0
    """Runs at a time; 0 for as many as the cores have room for."""
    threads: int = 1
    """Threads of each process of a run."""
    launcher: tuple[str, ...] = ()
    """Words before a run's own, such as `srun`."""
    time_limit: float = 0.0
    """Seconds after which a run is stopped, saved and counted as failed; 0 for none."""
    retries: int = 0
    """How often a run that failed is tried again at once."""
    overwrite: bool = False
    """Remove runs of earlier, different settings."""
    screen: bool = True
    """Show how it goes."""

    def __post_init__(self) -> None:
        for name in "jobs", "retries", "threads":
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise UserError(f"{name} is {value!r}, but must be a whole number")
        limit = self.time_limit
        if not isinstance(limit, int | float) or not limit >= 0:
            raise UserError(
                f"time_limit is {limit!r}, but must be seconds, or 0 for none"
            )


@dataclasses.dataclass
class Job:
    """A variant on its way."""

    variant: Variant
    state: State
    changes: list[str]
    """How an earlier run in its directory differs from it."""
    cause: str = ""
    attempts: int = 0
    process: subprocess.Popen | None = None
    _since: float = 0.0
    _printed: int = 0  # bytes of its output before this attempt
    _noted: int = 0  # when an earlier attempt left its cause
    _stopped_for: str = ""
    _stopped_at: float = 0.0

    @classmethod
    def of(cls, variant: Variant) -> Self:
        """Told from what the variant has left behind."""
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
        elif path.exists():  # an earlier one, or one that never came to its settings
            words.append("--overwrite")
        self.note_output()
        self.process = subprocesses.start(words, output, threads, launcher)
        self.state, self._since = "running", time.monotonic()
        self._stopped_for, self.changes = "", []
        self.attempts += 1

    def note_output(self) -> None:
        """What was told up to now is of an earlier attempt."""
        output = self.variant.output
        self._noted = failures.noted_at(self.variant.path)
        self._printed = output.stat().st_size if output.exists() else 0

    def stop(self, why: str) -> None:
        """Asks it to save and end; what does not in time is killed."""
        assert self.process is not None
        if not self._stopped_for:
            self._stopped_for, self._stopped_at = why, time.monotonic()
            # Not SIGTERM, on which srun kills what it started; this it passes on.
            self.process.send_signal(signal.SIGUSR1)
        elif time.monotonic() - self._stopped_at > GRACE:
            told = "did not save in time and was killed; run again to go on"
            self._stopped_for = f"{self._stopped_for.partition(';')[0]}; {told}"
            self.process.kill()

    def poll(self, time_limit: float) -> None:
        """Notes its end; stops it where it has run too long."""
        assert self.process is not None
        code = self.process.poll()
        if code is None:
            if self._stopped_for:
                self.stop(self._stopped_for)
            elif time_limit and time.monotonic() - self._since > time_limit:
                self.stop(f"took longer than {time_limit:g} s; run again to go on")
            return
        record = self.variant.record
        if code == 0 and record is not None and record.state == "finished":
            self.state, self.cause = "finished", ""
        elif self._stopped_for:
            self.state, self.cause = "stopped", self._stopped_for
        else:
            self.state, self.cause = "failed", self._why(code)

    def _why(self, code: int) -> str:
        """It ended, in a line."""
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return self.last_words() or f"ended with exit code {code}"

    def last_words(self) -> str:
        """The end as this attempt told it; "" if it told none."""
        # One that was refused may have left the note of another where it was.
        fresh = failures.noted_at(self.variant.path) != self._noted
        if fresh and (noted := failures.note(self.variant.path)):
            return noted
        if not self.variant.output.exists():
            return ""
        with self.variant.output.open("rb") as file:
            file.seek(self._printed)
            return failures.last_words(file.read().decode(errors="replace"))

    def look(self) -> Line:
        """What can be seen of it from outside."""
        run, output = self.variant.run, str(self.variant.output)
        line = Line(self.variant.name, self.state, run.total_steps, self.cause, output)
        line = line._replace(attempt=max(self.attempts, 1))
        progress = {} if self.state == "waiting" else self.variant.progress
        if not progress:
            return line
        return line._replace(
            steps=int(progress["TotalEnvInteracts"][-1]),
            returned=float(reading.returns(progress)[-1]),
            seconds=float(progress["Time"][-1]),
        )


@dataclasses.dataclass(frozen=True)
class Summary:
    """How a go through all variants ended."""

    finished: list[Path]
    failed: dict[str, str]
    """The cause by the name of the run."""
    stopped_by: signal.Signals | None = None
    queued: Sequence[str] = ()
    """Jobs of a cluster that go on by themselves."""


class Source(Protocol):
    """Where further variants come from, which may depend on those before."""

    def more(self) -> Variant | None:
        """The next one, if there is one."""

    def judge(self, job: Job) -> str:
        """Why a run should go no further; empty if it should."""

    def ended(self, job: Job) -> None:
        """Takes note of what became of it."""


def run(
    name: str,
    variants: Sequence[Variant],
    options: Options,
    source: Source | None = None,
    expected: int = 0,
) -> Summary:
    """Runs all that are not finished yet; one failure does not stop the rest."""
    with claimed(name, variants, options) as jobs:
        return Runner(Board(name, jobs, options, expected), options, source).go()


@contextlib.contextmanager
def claimed(
    name: str, variants: Sequence[Variant], options: Options
) -> Iterator[list[Job]]:
    """Keeps other runners out of a grid; refuses runs that must not be mixed."""
    with directory.locked(Path(options.out) / name):
        jobs = [Job.of(variant) for variant in variants]
        if not options.overwrite:
            _refuse_changed(jobs)
        yield jobs


def _refuse_changed(jobs: Sequence[Job]) -> None:
    """Refuses runs of other settings: results of two must not be taken for one."""
    faults = [
        f"{job.variant.path} holds another run: {', '.join(job.changes)}"
        for job in jobs
        if job.changes
    ]
    if not faults:
        return
    what = "choose another name, or remove {} with --overwrite"
    if len(faults) == 1:
        raise UserError(f"{faults[0]}; {what.format('it')}")
    more = [f"and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
    head = f"{len(faults)} runs are of other settings; {what.format('them')}:"
    raise UserError("\n  ".join([head, *faults[:SHOWN], *more]))


class Board:
    """Jobs before the eyes of the user."""

    def __init__(
        self, name: str, jobs: list[Job], options: Options, expected: int = 0
    ) -> None:
        self.jobs = jobs
        self._lines = [job.look() for job in jobs]
        self._looked = 0.0
        count = expected or len(jobs)
        self._display = LiveTable(name, self._lines, count) if options.screen else None

    def add(self, job: Job) -> None:
        self.jobs.append(job)
        self._lines.append(job.look())

    def having(self, *states: State) -> list[Job]:
        """Those in one of the states."""
        return [job for job in self.jobs if job.state in states]

    def show(self) -> None:
        """Looks at those that changed, and once a second at those under way."""
        due = time.monotonic() - self._looked > 1
        for i, job in enumerate(self.jobs):
            under_way = job.state in ("running", "waiting")
            if job.state != self._lines[i].state or (due and under_way):
                self._lines[i] = job.look()
        if due:
            self._looked = time.monotonic()
        if self._display:
            self._display.show(self._lines)

    def end(self, stopped_by: signal.Signals | None) -> Summary:
        """What became of them."""
        if self._display:
            self._display.end(self._lines)
        done = [job.variant.path for job in self.having("finished")]
        ended = self.having("failed", "stopped")
        return Summary(done, {job.variant.name: job.cause for job in ended}, stopped_by)


class Runner:
    """Variants under way, as processes."""

    def __init__(
        self, board: Board, options: Options, source: Source | None = None
    ) -> None:
        self._board, self._options, self._source = board, options, source
        self._cores = len(os.sched_getaffinity(0))

    def go(self) -> Summary:
        """Until all have ended or a signal came; then what became of them."""
        try:
            with StopRequest() as stop:
                self._fill()
                while self._busy(stop.signal):
                    self._step(stop.signal)
                    self._board.show()
                    time.sleep(0.1)
        finally:
            self._kill()
        return self._board.end(stop.signal)

    def _busy(self, stopped: signal.Signals | None) -> bool:
        waiting = bool(self._board.having("waiting")) and not stopped
        return waiting or bool(self._board.having("running"))

    def _step(self, stopped: signal.Signals | None) -> None:
        for job in self._board.having("running"):
            if stopped:
                job.stop(f"stopped by {stopped.name}; run again to go on")
            elif why := self._source.judge(job) if self._source else "":
                job.stop(why)
            job.poll(self._options.time_limit)
            if job.state == "failed" and self._is_worth_another(job):
                job.state = "waiting"
            elif job.state != "running" and self._source and not stopped:
                self._source.ended(job)
        if not stopped:
            self._fill()

    def _fill(self) -> None:
        """Starts as many as may run; a source is not asked before there is room."""
        while self._has_room(1) and (job := self._next()):
            if not self._has_room(job.variant.processes):
                return
            job.start(self._options.threads, self._options.launcher)

    def _has_room(self, processes: int) -> bool:
        """By the number of runs that was asked for, or else by the cores they use."""
        running = self._board.having("running")
        if self._options.jobs:
            return len(running) < self._options.jobs
        used = sum(job.variant.processes for job in running)
        return not running or used + processes <= self._cores

    def _next(self) -> Job | None:
        if waiting := self._board.having("waiting"):
            return waiting[0]
        variant = self._source.more() if self._source else None
        if variant is None:
            return None
        # One that is finished on the disk is started too, so that its end is noted.
        job = dataclasses.replace(Job.of(variant), state="waiting")
        self._board.add(job)
        return job

    def _is_worth_another(self, job: Job) -> bool:
        assert job.process is not None
        refused = job.process.returncode == REFUSED
        return not refused and job.attempts <= self._options.retries

    def _kill(self) -> None:
        """What is still there after a second Ctrl-C or a mistake of ours."""
        for job in self._board.jobs:
            if job.process is not None and job.process.poll() is None:
                job.process.kill()
