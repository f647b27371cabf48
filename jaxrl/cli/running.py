"""What `train`, `resume` and `rerun` share."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jaxrl.cli import compilations, outcome, stdout
from jaxrl.errors import UserError
from jaxrl.logging.console import terminal
from jaxrl.processes import mpirun, ranks
from jaxrl.processes.signals import StopRequest
from jaxrl.processes.threads import physical_cores
from jaxrl.runs import status
from jaxrl.runs.reading import Record
from jaxrl.runs.status import Status

if TYPE_CHECKING:
    from jaxrl.training.session import Result

MOST_RANKS = 256  # that are started on a machine of a few cores


def fix_threads(record: Record) -> int:
    """Sets the run's own number of threads, on which XLA's last bits depend."""
    machine = record.config.get("machine")
    threads = machine.get("threads") if isinstance(machine, dict) else None
    if isinstance(threads, int) and 0 < threads <= 1024:
        os.environ["NPROC"] = str(threads)
    return int(os.environ["NPROC"])


def ranks_to_start(num_procs: int) -> int:
    """How many processes this command must start; 0 if none, or if it is one."""
    wanted = num_procs or physical_cores()
    if wanted == 1 or ranks.size() > 1:
        return 0
    most = max(MOST_RANKS, 4 * (os.cpu_count() or 1))
    if wanted > most:  # as a stranger's settings may ask
        raise UserError(
            f"num_procs is {wanted}, but this machine takes at most {most} processes"
        )
    return wanted


def launched(words: list[str], run: Path, size: int, threads: int = 0) -> int:
    """`jaxrl` with these words in `size` processes; the exit code.

    Signals are passed on to all of them. `run` is the directory that they write.
    """
    before = status.read(run / status.FILE)
    share = max(len(os.sched_getaffinity(0)) // size, 1)
    given = int(os.environ["NPROC"])  # fewer in a grid, whose runs share the cores
    outcome.pass_on()
    launch = mpirun.Launch(words, size, threads or min(share, given))
    asked = False
    with StopRequest() as stop:
        try:
            while (code := launch.wait(0.1)) is None:
                if stop.signal and not asked:
                    asked = True
                    launch.stop(stop.signal)
        except BaseException:
            launch.kill()
            raise
    if stop.signal and code:
        outcome.record_if_none(Status.from_signal(stop.signal))
        return 128 + stop.signal
    outcome.record_if_none(Status.from_exit_code(code, launch.reason))
    if launch.reason and code != status.REFUSED:
        status.note_reason(run, before, code, launch.reason)
    return code


def cache_compilations() -> None:
    """Keeps compiled programs for the next start; called before JAX is imported."""
    if ranks.prints() and terminal():
        stdout.say("loading JAX")  # some seconds on a slow disk
    compilations.keep()


def report(result: "Result", env: str, wandb: bool) -> int:
    """Prints where the run is and what to do with it; the exit code."""
    path = shlex.quote(str(result.directory))
    here = _import_path(env)
    again = f"  {here}jaxrl resume {path}{' --wandb' if wandb else ''}"
    if result.stopped_by:
        outcome.record(Status.from_signal(result.stopped_by))
        stdout.say(
            f"\nstopped by {result.stopped_by.name} and saved; continue with",
            again,
        )
        # All is saved, and an unfinished compilation would delay the exit.
        ranks.exit_after_stop(result.stopped_by)
    stdout.say(
        f"\nresults in {path}",
        f"  jaxrl plot {path}",
        f"  {here}jaxrl eval {path}        {here}jaxrl video {path}",
        f"{again} --steps N        to train longer",
    )
    return 0


def _import_path(env: str) -> str:
    """What a command needs before it to import an environment from this directory.

    `train` imports it because its flag names it. Later commands read the name in a
    file, which may be a stranger's.
    """
    module = env.rpartition(":")[0].partition(".")[0]
    if not module or not (Path(f"{module}.py").exists() or Path(module).is_dir()):
        return ""
    given = os.environ.get("PYTHONPATH", "")
    if os.getcwd() in given.split(os.pathsep):
        return ""
    # A "." may have been set for this command only.
    return "PYTHONPATH=. " if given in ("", ".") else "PYTHONPATH=.:$PYTHONPATH "
