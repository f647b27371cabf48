"""What the commands share that start a run."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from jaxrl.runs.reading import Record

if TYPE_CHECKING:
    from jaxrl.training.host import Result


def fix_threads(record: Record) -> None:
    """XLA's last bits depend on their number, so a run is repeated with its own."""
    machine = record.config.get("machine")
    threads = machine.get("threads") if isinstance(machine, dict) else None
    if isinstance(threads, int) and 0 < threads < 10_000:
        os.environ["NPROC"] = str(threads)


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
        print(f"\nstopped by {result.stopped_by.name} and saved; go on with")
        print(f"  jaxrl resume {path}", flush=True)
        # All is on the disk, and a compiler still at work would hold up the exit.
        os._exit(128 + result.stopped_by)
    print(f"\nresults in {path}")
    print(f"  jaxrl plot {path}")
    print(f"  jaxrl eval {path}        jaxrl video {path}")
    print(f"  jaxrl resume {path} --steps N        to train longer")
    return 0
