"""`jaxrl` commands as child processes that end with the process that started them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxrl.processes import threads as thread_settings
from jaxrl.processes.signals import die_with_parent

RUNNER = "JAXRL_RUNNER"


def start(
    words: list[str], output: Path, threads: int = 1, launcher: Sequence[str] = ()
) -> subprocess.Popen:
    """`jaxrl` with these arguments; its output is appended to the file `output`.

    A `launcher`, such as `srun`, starts it on several hosts and ends it itself.
    """
    # Runs side by side share the cores, so each has as many threads as it is given.
    environment = os.environ | thread_settings.environment(threads)
    if not launcher:
        environment[RUNNER] = str(os.getpid())
    with output.open("ab") as file:
        return subprocess.Popen(
            [*launcher, sys.executable, "-m", "jaxrl", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            process_group=0,  # so that Ctrl-C comes from the runner, and once
        )


def die_with_the_runner() -> None:
    """In a run that a runner started: ends it as soon as that runner is dead."""
    if runner := os.environ.pop(RUNNER, ""):
        die_with_parent(int(runner))
