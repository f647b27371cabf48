"""How many threads a process uses. XLA's results depend on it, so a run must fix it."""

import contextlib
import os
from pathlib import Path

from jaxrl.processes import ranks

THREADS = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def environment(threads: int) -> dict[str, str]:
    """The environment variables that set the number of threads of a new process."""
    return dict.fromkeys(THREADS, str(threads))


def physical_cores() -> int:
    """Those that this process may use; two hyperthreads count as one core."""
    usable = os.sched_getaffinity(0)
    with contextlib.suppress(OSError, ValueError):
        siblings = {
            Path(f"/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list")
            .read_text()
            .strip()
            for n in usable
        }
        return max(len(siblings), 1)
    return len(usable)


def fix_threads() -> None:
    """Fixes this process's threads, unless the environment does; ranks share cores."""
    cores = len(os.sched_getaffinity(0))
    if ranks.size() == 1:
        os.environ.setdefault("NPROC", str(cores))
        return
    for name, value in environment(max(cores // ranks.local_size(), 1)).items():
        os.environ.setdefault(name, value)
