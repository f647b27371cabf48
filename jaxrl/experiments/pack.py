"""Variants of a grid that one process trains, in one compiled program."""

import contextlib
import functools
import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from signal import Signals

from jaxrl.experiments.job import Job
from jaxrl.experiments.variant import Variant
from jaxrl.processes import subprocesses
from jaxrl.runs import packing, status


def alike(job: Job, waiting: Sequence[Job]) -> list[Job]:
    """Those of the waiting jobs that the job's program can train, and the job."""
    program = _program(job)
    if program is None:
        return [job]
    return [other for other in waiting if _program(other) == program]


def grouped(jobs: Iterable[Job]) -> list[list[Job]]:
    """The jobs that one program each can train; the others alone."""
    groups: dict[str | int, list[Job]] = {}
    for job in jobs:
        groups.setdefault(_program(job) or id(job), []).append(job)
    return list(groups.values())


def _program(job: Job) -> str | None:
    """What the compiled program of a job depends on; None if it has none to share."""
    if not isinstance(job.variant, Variant) or not packing.is_packable(job.variant.run):
        return None
    return json.dumps(packing.program_settings(job.variant.run), default=str)


class SharedProcess:
    """The process of several jobs, which is asked to stop once, for all of them."""

    def __init__(self, process: subprocess.Popen, output: Path) -> None:
        self.process, self.output = process, output
        self._asked: list[Signals] = []

    @property
    def returncode(self) -> int | None:
        return self.process.returncode

    def poll(self) -> int | None:
        return self.process.poll()

    def send_signal(self, sig: Signals) -> None:
        if sig not in self._asked:
            self._asked.append(sig)
            self.process.send_signal(sig)

    def kill(self) -> None:
        self.process.kill()


def start(jobs: Sequence[Job], threads: int) -> None:
    """In one process; they fail on a full disk."""
    first, replaced = jobs[0], [str(job.variant.file) for job in jobs if job.changes]
    words = ["-m", "jaxrl", "packed", *(str(job.variant.file) for job in jobs)]
    words += ["--replace", *replaced] if replaced else []
    outcome = status.outcome_file(first.variant.path)

    @functools.cache
    def launch() -> SharedProcess:
        started = subprocesses.start(words, first.output, outcome, threads)
        return SharedProcess(started, first.output)

    for job in jobs:  # all files, before the process reads them
        with contextlib.suppress(OSError):  # the job notes it
            job.write()
    for job in jobs:
        job.begin(launch)
