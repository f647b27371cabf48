"""One variant on a machine of a cluster: `python -m jaxrl.experiments.slurm_task LIST`.

Slurm starts this for each task of a job array. The run is a separate process, as in
any grid, and saves when Slurm asks for the machine. Slurm requeues it then, or this
process does where the time limit was reached, and it resumes.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
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


def main(file: Path, environment: Mapping[str, str]) -> int:
    """Runs the variant that the list names for this task; the exit code."""
    tasks = json.loads(files.read_text(file, files.TABLE))
    number = int(environment["SLURM_ARRAY_TASK_ID"])
    variant = Variant.read(Path(tasks["files"][number]))
    job, before = Job.from_variant(variant), _saved(variant)
    how = options(tasks, variant, environment)
    summary = Runner(JobTable(file.stem, [job], how), how).run()
    if summary.finished:
        return 0
    if summary.stopped_by is TIME_LIMIT:
        if _saved(variant) != before:
            return _requeue(environment)
        job.reason = "it reached its time limit in Slurm before it saved anything new"
    elif summary.stopped_by:
        return 128 + summary.stopped_by
    # For the process that monitors the array.
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


def _saved(variant: Variant) -> list[int]:
    """Without a new one, a requeued run would repeat the same steps without end."""
    return reading.saved_checkpoints(variant.path)


def _requeue(environment: Mapping[str, str]) -> int:
    job = environment["SLURM_ARRAY_JOB_ID"], environment["SLURM_ARRAY_TASK_ID"]
    return subprocess.call(["scontrol", "requeue", "_".join(job)])


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), os.environ))
