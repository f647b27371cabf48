"""One variant on a machine of a cluster: `python -m jaxrl.experiments.slurm_task LIST`.

Slurm starts this for each task of a job array. The run is a process beside it, as in
any grid, and saves when Slurm asks for the machine: it is then in the queue again, by
Slurm's doing or, where its time ran out, by ours, and goes on from there.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl.experiments.runner import Board, Job, Options, Runner
from jaxrl.experiments.variant import Variant
from jaxrl.runs import reading

# Slurm sends it some time before the limit on a job's time; to end a job or take its
# machine away, it sends SIGTERM.
TIME_IS_UP = signal.SIGUSR1


def main(file: Path, environment: Mapping[str, str]) -> int:
    """Runs the variant that the list names for this task; the exit code."""
    tasks = json.loads(file.read_text())
    number = int(environment["SLURM_ARRAY_TASK_ID"])
    variant = Variant.read(Path(tasks["files"][number]))
    job, before = Job.of(variant), _saved(variant)
    options = _options(tasks, variant, environment)
    summary = Runner(Board(file.stem, [job], options), options).go()
    if summary.finished:
        return 0
    if summary.stopped_by is TIME_IS_UP:
        if _saved(variant) != before:
            return _queue_again(environment)
        job.cause = "its time in Slurm was up before it had saved anything new"
    elif summary.stopped_by:
        return 128 + summary.stopped_by
    if job.last_words() != job.cause:  # such as of a kill, which nobody else tells
        with variant.output.open("a") as output:
            print(f"jaxrl: {job.cause}", file=output)
    return 1


def _options(
    tasks: Mapping[str, Any], variant: Variant, environment: Mapping[str, str]
) -> Options:
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
    """By which a go that got on is told from one that would repeat itself for ever."""
    return reading.saved_checkpoints(variant.path)


def _queue_again(environment: Mapping[str, str]) -> int:
    job = environment["SLURM_ARRAY_JOB_ID"], environment["SLURM_ARRAY_TASK_ID"]
    return subprocess.call(["scontrol", "requeue", "_".join(job)])


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), os.environ))
