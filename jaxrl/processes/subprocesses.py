"""Python programs as child processes that end with the process that started them."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from jaxrl import files
from jaxrl.processes import threads as thread_settings
from jaxrl.processes.signals import die_with_parent

RUNNER = "JAXRL_RUNNER"
STATUS = "JAXRL_STATUS"  # the file in which it says how it ended


def start(
    program: Sequence[str],
    output: Path,
    status: Path,
    threads: int = 1,
    launcher: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen:
    """Python with these arguments; its output is appended to the file `output`.

    At its end it writes to the file `status` how it ended.

    A `launcher`, such as `srun`, starts it on several machines and sees to its end.
    """
    # Runs side by side share the cores, so each has as many threads as it is given.
    environment = os.environ | thread_settings.environment(threads)
    environment |= variables or {}
    environment[STATUS] = str(status.absolute())
    if not launcher:
        environment[RUNNER] = str(os.getpid())
    with files.append_to(output) as file:
        return subprocess.Popen(
            [*launcher, sys.executable, *program],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            process_group=0,  # so that Ctrl-C comes from the runner, and once
        )


def module_path(*more: str) -> dict[str, str]:
    """For a process, with -P, that finds the modules that this one finds."""
    known = [place or os.getcwd() for place in sys.path]  # "" in a notebook
    return {"PYTHONPATH": os.pathsep.join([*known, *more])}


def die_with_the_runner() -> None:
    """In a run that a runner started: ends it as soon as that runner is dead."""
    if runner := os.environ.pop(RUNNER, ""):
        die_with_parent(int(runner))
