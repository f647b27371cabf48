"""What Slurm says of the array tasks of a grid, and how their runs end."""

import contextlib
import dataclasses
import json
import re
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from jaxrl import files
from jaxrl.errors import UserError
from jaxrl.experiments.job import Job
from jaxrl.experiments.runner import JobTable, Summary
from jaxrl.processes.signals import StopRequest

POLL = 5.0  # seconds between two questions to Slurm
WAITING = (
    *("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD"),
    "SPECIAL_EXIT",
)
ENDED = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"),
    *("PREEMPTED", "DEADLINE", "BOOT_FAIL", "REVOKED"),
)


class ArrayTask(NamedTuple):
    """One task of a job array, as Slurm sees it."""

    id: str
    state: str
    reason: str

    @property
    def live(self) -> bool:
        return self.state not in ENDED


def settings_file(job: Job) -> str:
    """Which identifies a job, also on another machine."""
    return str(job.variant.file.absolute())


def read(folder: Path) -> dict[str, ArrayTask]:
    """Tasks in the queue and those that left it lately, by their settings file."""
    words = ["squeue", "--me", "--states=all", "--array", "--noheader"]
    done = subprocess.run(
        [*words, "--format=%F|%K|%T|%r|%k"], capture_output=True, text=True
    )
    if done.returncode:
        raise UserError(f"squeue says: {' '.join(done.stderr.split())}")
    # Comments of other jobs may have several lines.
    lines = re.findall(r"(?m)^(\d+)\|(\d+)\|(.*)\|(.*)\|(/.*)$", done.stdout)
    found: dict[str, ArrayTask] = {}
    # Of two tasks for one variant, the later one counts.
    for array, index, state, reason, comment in sorted(lines, key=_array):
        if Path(comment).parent == folder and Path(comment).exists():
            known = "" if reason == "None" else reason
            task = ArrayTask(f"{array}_{index}", state, known)
            found |= dict.fromkeys(_files(comment)[int(index)], task)
    return found


def _array(line: tuple[str, ...]) -> int:
    return int(line[0])


def _files(listing: str) -> list[list[str]]:
    """The settings of the runs of each task."""
    return json.loads(files.read_text(Path(listing), files.TABLE))["tasks"]


def live(queue: Mapping[str, ArrayTask]) -> dict[str, ArrayTask]:
    """Those that wait or run."""
    return {file: task for file, task in queue.items() if task.live}


def live_arrays(queue: Mapping[str, ArrayTask]) -> list[str]:
    """Their numbers, as `scancel` takes them."""
    arrays = {task.id.partition("_")[0] for task in live(queue).values()}
    return sorted(arrays, key=int)


def follow(table: JobTable, folder: Path) -> Summary:
    """Until all have ended; a signal stops monitoring and not the jobs."""
    asked, queue = float("-inf"), {}
    with StopRequest() as stop:
        while table.having("waiting", "running") and not stop.signal:
            if time.monotonic() - asked > POLL:
                with contextlib.suppress(UserError):  # Slurm is busy: ask again later
                    queue = read(folder)
                    _note(table.having("waiting", "running"), queue, folder)
                asked = time.monotonic()
            table.show()
            time.sleep(0.1)
    summary = table.end(stop.signal)
    return dataclasses.replace(summary, queued=live_arrays(queue))


def _note(jobs: Iterable[Job], queue: Mapping[str, ArrayTask], folder: Path) -> None:
    for job in jobs:
        task = queue.get(settings_file(job))
        if task is None or not task.live:
            _note_end(job, task, folder)
        elif task.state in WAITING:
            job.state, job.reason = "waiting", task.reason
        else:
            job.state, job.reason = "running", ""


def _note_end(job: Job, task: ArrayTask | None, folder: Path) -> None:
    ended = job.outcome
    if Job.from_variant(job.variant).state == "finished":
        job.state, job.reason = "finished", ""
    elif task and task.state == "CANCELLED":
        job.state, job.reason = "stopped", "cancelled in Slurm; rerun to continue"
    elif task and task.state == "FAILED" and ended and ended.state == "failed":
        job.state, job.reason = "failed", ended.reason
    elif task is None:
        reason = "it is no longer in Slurm's queue; rerun to continue"
        job.state, job.reason = "failed", reason
    elif task.state != "COMPLETED":  # its last files may be visible only in a moment
        log = f"{folder}/{task.id}_0_log.out"
        reason = f"Slurm ended it as {task.state}; rerun to continue; see {log}"
        job.state, job.reason = "failed", reason
