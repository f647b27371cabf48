"""What the commands share that start a run."""

import os
import shlex
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jaxrl.cli import outcome
from jaxrl.processes import mpirun
from jaxrl.processes.signals import StopRequest
from jaxrl.runs.reading import Record
from jaxrl.runs.status import Status

if TYPE_CHECKING:
    from jaxrl.training.session import Result


def fix_threads(record: Record) -> int:
    """XLA's last bits depend on their number, so a run is repeated with its own."""
    machine = record.config.get("machine")
    threads = machine.get("threads") if isinstance(machine, dict) else None
    if isinstance(threads, int) and 0 < threads <= 1024:
        os.environ["NPROC"] = str(threads)
    return int(os.environ["NPROC"])


def ranks_to_start(num_procs: int) -> int:
    """For a run of several processes that nobody has started yet; else 0."""
    ranks = num_procs or mpirun.physical_cores()
    return ranks if ranks > 1 and mpirun.size() == 1 else 0


def launched(words: list[str], ranks: int, threads: int = 0) -> int:
    """`jaxrl` with these words in so many processes; the exit code.

    Signals go on to all of them.
    """
    share = max(len(os.sched_getaffinity(0)) // ranks, 1)
    given = int(os.environ["NPROC"])  # fewer, where others run beside it
    outcome.pass_on()
    launch = mpirun.Launch(words, ranks, threads or min(share, given))
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
    return 128 + stop.signal if stop.signal and code else code


def cache_compilations() -> None:
    """A second start finds what the first compiled."""
    import jax

    home = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(Path(home) / "jaxrl" / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def report(result: "Result") -> int:
    """Says where the run is and what can be done with it; the exit code."""
    path = shlex.quote(str(result.directory))
    if result.stopped_by:
        heard = signal.Signals[mpirun.heard_by_all(result.stopped_by)]
        outcome.record(Status.from_signal(heard))
        print(f"\nstopped by {heard.name} and saved; continue with")
        print(f"  jaxrl resume {path}", flush=True)
        if mpirun.rank():
            time.sleep(mpirun.MOURNING)
        # All is on the disk, and a compiler still at work would hold up the exit.
        os._exit(128 + result.stopped_by)
    print(f"\nresults in {path}")
    print(f"  jaxrl plot {path}")
    print(f"  jaxrl eval {path}        jaxrl video {path}")
    print(f"  jaxrl resume {path} --steps N        to train longer")
    return 0
