"""Variants on a machine of a cluster: `python -m jaxrl.experiments.slurm_task LIST`.

Slurm starts this for each task of a job array, which has one variant or several that
one program trains. It runs in a separate process, as in any grid, and saves when Slurm
asks for the machine. Slurm requeues it then, or this process does where the time limit
was reached, and it resumes.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl import files
from jaxrl.experiments.job import Job
from jaxrl.experiments.runner import JobTable, Options, Runner
from jaxrl.experiments.variant import Variant
from jaxrl.runs import reading
from jaxrl.runs.status import Status

# Slurm sends it some time before the limit on a job's time; to end a job or take its
# machine away, it sends SIGTERM.
TIME_LIMIT = signal.SIGUSR1
TOO_SHORT = "it reached its time limit in Slurm before it saved anything new"


def main(file: Path, environment: Mapping[str, str]) -> int:
    """Runs the variants that the list names for this task; the exit code."""
    tasks = json.loads(files.read_text(file, files.TABLE))
    number = int(environment["SLURM_ARRAY_TASK_ID"])
    variants = [Variant.read(Path(each)) for each in tasks["tasks"][number]]
    jobs, before = [Job.from_variant(each) for each in variants], _saved(variants)
    how = options(tasks, variants[0], environment)
    summary = Runner(JobTable(file.stem, jobs, how), how).run()
    unfinished = [job for job in jobs if job.state != "finished"]
    if not unfinished:
        return 0
    if summary.stopped_by is TIME_LIMIT:
        if _saved(variants) != before:
            return _requeue(environment)
        for job in unfinished:
            job.reason = TOO_SHORT
    elif summary.stopped_by:
        return 128 + summary.stopped_by
    for job in unfinished:  # for the process that monitors the array
        job.note_outcome(Status(state="failed", reason=job.reason, exit_code=1))
    return 1


def options(
    tasks: Mapping[str, Any], variant: Variant, environment: Mapping[str, str]
) -> Options:
    """A run of several processes is started by srun, on the cores of its job."""
    threads = int(environment.get("SLURM_CPUS_PER_TASK", 1))
    several = ("srun", f"--ntasks={variant.processes}", f"--cpus-per-task={threads}")
    return Options(
        jobs=1,
        threads=threads,
        launcher=(*several, "--kill-on-bad-exit") if variant.processes > 1 else (),
        retries=tasks["retries"],
        time_limit=tasks["time_limit"],
        screen=False,
    )


def _saved(variants: Sequence[Variant]) -> list[list[int]]:
    """Without a new one, requeued runs would repeat the same steps without end."""
    return [reading.saved_checkpoints(variant.path) for variant in variants]


def _requeue(environment: Mapping[str, str]) -> int:
    job = environment["SLURM_ARRAY_JOB_ID"], environment["SLURM_ARRAY_TASK_ID"]
    return subprocess.call(["scontrol", "requeue", "_".join(job)])


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), os.environ))
