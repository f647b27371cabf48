"""What `train`, `resume` and `rerun` share."""

import os
import shlex
from typing import TYPE_CHECKING

from jaxrl.cli import compilations, outcome, stdout
from jaxrl.logging.console import terminal
from jaxrl.processes import mpirun, ranks
from jaxrl.runs.reading import Record
from jaxrl.runs.status import Status

if TYPE_CHECKING:
    from jaxrl.training.session import Result


def fix_threads(record: Record) -> int:
    """Sets the run's own number of threads, on which XLA's last bits depend."""
    machine = record.config.get("machine")
    threads = machine.get("threads") if isinstance(machine, dict) else None
    if isinstance(threads, int) and 0 < threads <= 1024:
        os.environ["NPROC"] = str(threads)
    return int(os.environ["NPROC"])


def launched(words: list[str], size: int, threads: int = 0) -> int:
    """`jaxrl` with these words in so many processes; the exit code.

    Signals are passed on to all of them.
    """
    outcome.pass_on()
    launch = mpirun.Launch(words, size, threads or mpirun.threads_of_a_rank(size))
    code, stopped_by = launch.run_to_end()
    if stopped_by and code:
        outcome.record_if_none(Status.from_signal(stopped_by))
        return 128 + stopped_by
    outcome.record_if_none(Status.from_exit_code(code, launch.reason))
    return code


def cache_compilations() -> None:
    """Keeps compiled programs for the next start; called before JAX is imported."""
    if ranks.prints() and terminal():
        stdout.say("loading JAX")  # some seconds on a slow disk
    compilations.keep()


def report(result: "Result") -> int:
    """Prints where the run is and what to do with it; the exit code."""
    path = shlex.quote(str(result.directory))
    if result.stopped_by:
        outcome.record(Status.from_signal(result.stopped_by))
        stdout.say(
            f"\nstopped by {result.stopped_by.name} and saved; continue with",
            f"  jaxrl resume {path}",
        )
        # All is saved, and an unfinished compilation would delay the exit.
        ranks.exit_after_stop(result.stopped_by)
    stdout.say(
        f"\nresults in {path}",
        f"  jaxrl plot {path}",
        f"  jaxrl eval {path}        jaxrl video {path}",
        f"  jaxrl resume {path} --steps N        to train longer",
    )
    return 0
