"""Runs variants side by side, each in its own process.

The state of a variant is read from its directory, so rerunning skips finished runs,
resumes interrupted ones and retries failed ones.
"""

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from jaxrl.errors import UserError
from jaxrl.experiments import pack
from jaxrl.experiments.function_variant import FunctionVariant
from jaxrl.experiments.job import Job, State, Stop
from jaxrl.experiments.live_table import LiveTable
from jaxrl.experiments.variant import Variant
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import directory
from jaxrl.settings.values import plain

SHOWN = 10  # refusals of one kind


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
    """How often a failed run is retried at once."""
    overwrite: bool = False
    """Remove runs of earlier, different settings."""
    screen: bool = True
    """Print progress."""
    pack: bool = True
    """Train runs in JAX environments together where one program can."""

    def __post_init__(self) -> None:
        for name in "jobs", "retries", "threads", "time_limit":  # NumPy's too
            object.__setattr__(self, name, plain(getattr(self, name)))
        for name in "jobs", "retries", "threads":
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise UserError(f"{name} is {value!r}, but must be a whole number >= 0")
        if not isinstance(self.out, str | os.PathLike):
            raise UserError(f"out is {self.out!r}, but must be a directory")
        limit = self.time_limit
        if not isinstance(limit, int | float) or not limit >= 0:
            raise UserError(
                f"time_limit is {limit!r}, but must be seconds, or 0 for none"
            )


@dataclasses.dataclass(frozen=True)
class Summary:
    """How all variants ended."""

    finished: list[Path]
    failed: dict[str, str]
    """The reason by the name of the run, also of those stopped or pruned."""
    stopped_by: signal.Signals | None = None
    queued: Sequence[str] = ()
    """Slurm arrays that keep running."""


class Source(Protocol):
    """Where further variants come from, which may depend on those before."""

    def next(self) -> Variant | None:
        """The next one, if there is one."""

    def should_stop(self, job: Job) -> Stop | None:
        """Why a run should end now; None if it should not."""

    def report(self, job: Job) -> None:
        """Takes note of how it ended."""


def run(
    name: str,
    variants: Sequence[Variant | FunctionVariant],
    options: Options,
    source: Source | None = None,
    expected: int = 0,
) -> Summary:
    """Runs all that are not finished yet; one failure does not stop the rest."""
    with claimed(name, variants, options) as jobs:
        return Runner(JobTable(name, jobs, options, expected), options, source).run()


@contextlib.contextmanager
def claimed(
    name: str, variants: Sequence[Variant | FunctionVariant], options: Options
) -> Iterator[list[Job]]:
    """Locks a grid, so that one process runs it; refuses runs with other settings."""
    with directory.locked(Path(options.out) / name):
        jobs = [Job.from_variant(variant) for variant in variants]
        if not options.overwrite:
            _refuse_changed(jobs)
        yield jobs


def _refuse_changed(jobs: Sequence[Job]) -> None:
    """Refuses runs with other settings, whose results must not be mixed."""
    faults = [
        f"{job.variant.path} holds a run with other settings: {', '.join(job.changes)}"
        for job in jobs
        if job.changes
    ]
    if not faults:
        return
    what = "choose another name, or remove {} with --overwrite"
    if len(faults) == 1:
        raise UserError(f"{faults[0]}; {what.format('it')}")
    more = [f"and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
    head = f"{len(faults)} runs have other settings; {what.format('them')}:"
    raise UserError("\n  ".join([head, *faults[:SHOWN], *more]))


class JobTable:
    """All jobs, and what the terminal shows of them."""

    def __init__(
        self, name: str, jobs: list[Job], options: Options, expected: int = 0
    ) -> None:
        self.jobs = jobs
        self._lines = [job.line() for job in jobs]
        self._read = 0.0  # when
        count = expected or len(jobs)
        self._display = LiveTable(name, self._lines, count) if options.screen else None

    def add(self, job: Job) -> None:
        self.jobs.append(job)
        self._lines.append(job.line())

    def note(self, text: str) -> None:
        """Prints a line above the progress."""
        if self._display:
            self._display.note(text)

    def having(self, *states: State) -> list[Job]:
        """Those in one of the states."""
        return [job for job in self.jobs if job.state in states]

    def show(self) -> None:
        """Reads those that changed, and once a second those that are not over."""
        due = time.monotonic() - self._read > 1
        for i, job in enumerate(self.jobs):
            pending = job.state in ("running", "waiting")
            if job.state != self._lines[i].state or (due and pending):
                self._lines[i] = job.line()
        if due:
            self._read = time.monotonic()
        if self._display:
            self._display.show(self._lines)

    def end(self, stopped_by: signal.Signals | None) -> Summary:
        """How they ended."""
        if self._display:
            self._display.end(self._lines)
        done = [job.variant.path for job in self.having("finished")]
        ended = self.having("failed", "stopped", "pruned")
        reasons = {job.variant.name: job.reason for job in ended}
        return Summary(done, reasons, stopped_by)


class Runner:
    """Starts jobs as processes and follows them to their end."""

    def __init__(
        self, table: JobTable, options: Options, source: Source | None = None
    ) -> None:
        self.table, self._options, self._source = table, options, source
        self._cores = len(os.sched_getaffinity(0))

    def run(self) -> Summary:
        """Until all have ended or a signal came."""
        try:
            with StopRequest() as stop:
                self._fill()
                while self._busy(stop.signal):
                    self._step(stop.signal)
                    self.table.show()
                    time.sleep(0.1)
        finally:
            self._kill()
        return self.table.end(stop.signal)

    def _busy(self, stopped: signal.Signals | None) -> bool:
        waiting = bool(self.table.having("waiting")) and not stopped
        return waiting or bool(self.table.having("running"))

    def _step(self, stopped: signal.Signals | None) -> None:
        for job in self.table.having("running"):
            if stopped:
                job.stop(Stop(f"stopped by {stopped.name}"))
            elif self._source and (why := self._source.should_stop(job)):
                job.stop(why)
            job.poll(self._options.time_limit)
            if job.state == "failed" and self._should_retry(job):
                job.state = "waiting"
            elif job.state != "running" and self._source and not stopped:
                self._source.report(job)
        if not stopped:
            self._fill()

    def _fill(self) -> None:
        """Starts as many as may run; a source is not asked before there is room."""
        while self.has_room(1) and (job := self._next()):
            if not self.has_room(job.variant.processes):
                return
            self._start(job)
            if job.state == "failed" and self._source:
                self._source.report(job)

    def _start(self, job: Job) -> None:
        """With others that one program can train, of which each free core has some."""
        options, together = self._options, [job]
        if options.pack and not options.launcher and not self._source:
            together = pack.alike(job, self.table.having("waiting"))
            together = together[: -(-len(together) // max(self._free(), 1))]
        if len(together) == 1:
            job.start(options.threads, options.launcher)
            return
        self.table.note(f"{len(together)} runs in one program, from {job.variant.name}")
        pack.start(together, options.threads)

    def has_room(self, processes: int) -> bool:
        """By the number of runs that was asked for, or else by the cores they use."""
        alone = not self.table.having("running")
        return (
            self._free() > 0
            if self._options.jobs
            else alone or processes <= self._free()
        )

    def _free(self) -> int:
        """Runs at a time, or else cores, that are left."""
        running = {id(job.process): job for job in self.table.having("running")}
        if self._options.jobs:
            return self._options.jobs - len(running)
        return self._cores - sum(job.variant.processes for job in running.values())

    def _next(self) -> Job | None:
        if waiting := self.table.having("waiting"):
            return waiting[0]
        variant = self._source.next() if self._source else None
        if variant is None:
            return None
        # A finished one is started too, so that its end is reported to the source.
        job = dataclasses.replace(Job.from_variant(variant), state="waiting")
        self.table.add(job)
        return job

    def _should_retry(self, job: Job) -> bool:
        return not job.is_refused and job.attempts <= self._options.retries

    def _kill(self) -> None:
        """Those still running after a second Ctrl-C or an error of ours."""
        for job in self.table.jobs:
            if job.process is not None and job.process.poll() is None:
                job.process.kill()
