"""What `train`, `resume` and `rerun` share."""

import collections
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jaxrl.algos import is_file
from jaxrl.algos.user_files import short
from jaxrl.cli import compilations, outcome, stdout
from jaxrl.logging.console import terminal
from jaxrl.processes import mpirun, ranks
from jaxrl.runs import status
from jaxrl.runs.reading import CODE, Record
from jaxrl.runs.spec import Run
from jaxrl.runs.status import Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from signal import Signals

    from jaxrl.training.packed import Member
    from jaxrl.training.session import Result


def fix_threads(record: Record) -> int:
    """Sets the run's own number of threads, on which XLA's last bits depend."""
    machine = record.config.get("machine")
    threads = machine.get("threads") if isinstance(machine, dict) else None
    if isinstance(threads, int) and 0 < threads <= 1024:
        os.environ["NPROC"] = str(threads)
    return int(os.environ["NPROC"])


def announce_code(record: Record) -> None:
    """Says that a user's algorithm will be run; refuses one that is in the run."""
    from jaxrl.runs import code

    code.refuse_foreign(record.path, record.config)
    if is_file(record.config["algo"]) and ranks.prints():
        stdout.say(f"running the algorithm in {record.config['algo']}")


def note_changed_code(record: Record, run: Run) -> None:
    """Says that a repeated run has other code than the first."""
    before = str(record.config.get(CODE, ""))
    if before != run.algo_sha256 and ranks.prints():
        shown = f"SHA-256 {short(before)}, now {short(run.algo_sha256)}"
        stdout.say(f"{run.algo} has changed since that run ({shown})")


def launched(words: list[str], run: Path, size: int, threads: int = 0) -> int:
    """`jaxrl` with these words in `size` processes; the exit code.

    Signals are passed on to all of them. `run` is the directory that they write.
    """
    before = status.read(run / status.FILE)
    outcome.pass_on()
    launch = mpirun.Launch(words, size, threads or mpirun.threads_of_a_rank(size))
    code, stopped_by = launch.run_to_end()
    if stopped_by and code:
        outcome.record_if_none(Status.from_signal(stopped_by))
        return 128 + stopped_by
    outcome.record_if_none(Status.from_exit_code(code, launch.reason))
    if launch.reason and code != status.REFUSED:
        status.note_reason(run, before, code, launch.reason)
    return code


def cache_compilations() -> None:
    """Keeps compiled programs for the next start; called before JAX is imported."""
    if ranks.prints() and terminal():
        stdout.say("loading JAX")  # some seconds on a slow disk
    compilations.keep()


def report(result: "Result", env: str, networks: str, wandb: bool) -> int:
    """Prints where the run is and what to do with it; the exit code."""
    path = shlex.quote(str(result.directory))
    here = _import_path(env) or _import_path(networks)
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


def report_all(members: "Sequence[Member]", env: str, networks: str) -> int:
    """Like `report`, of several runs in one program."""
    here = _import_path(env) or _import_path(networks)
    paths = [shlex.quote(str(member.path)) for member in members]
    failed = {member.path: member.error for member in members if member.error}
    for path, error in failed.items():
        stdout.say(f"{path} failed: {status.describe(error)}")
    if stopped := stopped_by(members):
        outcome.record(Status.from_signal(stopped))
        stdout.say(
            f"\nstopped by {stopped.name} and saved; continue with",
            f"  {here}jaxrl resume {' '.join(paths)}",
        )
        ranks.exit_after_stop(stopped)
    reasons = [member.result.reason for member in members if member.result]
    ended = collections.Counter(x.partition(":")[0] for x in reasons if x)
    for reason, count in ended.items():
        stdout.say(f"note: {count} of {len(members)} runs {reason}")
    root = shlex.quote(str(members[0].path.parent))
    well = [shlex.quote(str(member.path)) for member in members if not member.error]
    ended_well = f"{len(well)} of {len(members)}" if failed else str(len(members))
    stdout.say(
        f"\nresults of {ended_well} runs in {root}",
        f"  jaxrl plot {root}        jaxrl ls {root}",
        *(f"  {here}jaxrl eval {x}        {here}jaxrl video {x}" for x in well[:1]),
    )
    return status.FAILED if failed else 0


def stopped_by(members: "Sequence[Member]") -> "Signals | None":
    """The signal that stopped runs of one program, if one did."""
    results = [member.result for member in members if member.result]
    return next((x.stopped_by for x in results if x.stopped_by), None)


def _import_path(name: str) -> str:
    """What a command needs before it to import `module:callable` from this directory.

    `train` imports it because its flag names it. Later commands read the name in a
    file, which may be a stranger's.
    """
    module = name.rpartition(":")[0].partition(".")[0]
    if not module or not (Path(f"{module}.py").exists() or Path(module).is_dir()):
        return ""
    given = os.environ.get("PYTHONPATH", "")
    if os.getcwd() in given.split(os.pathsep):
        return ""
    # A "." may have been set for this command only.
    return "PYTHONPATH=. " if given in ("", ".") else "PYTHONPATH=.:$PYTHONPATH "
