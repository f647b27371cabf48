"""The side of a measuring process for fused.py: compiles, then runs once per line.

Imported by fused_worker.py and, in rejax's own environment, by fused_peer.py.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import jax


def cpu_seconds() -> float:
    """Of all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def serve(compile: Callable[[], tuple[Callable[[int], Any], int]]) -> None:
    """Compiles a run and answers each line with the seconds of one; see `Worker`."""
    start = cpu_seconds()
    call, steps = compile()
    print(json.dumps({"compile_seconds": f"{cpu_seconds() - start:.2f}"}), flush=True)
    jax.block_until_ready(call(0))  # not measured
    for number, _ in enumerate(sys.stdin):
        cpu, clock = cpu_seconds(), time.perf_counter()
        jax.block_until_ready(call(number + 1))
        seconds = {
            "cpu_seconds": f"{cpu_seconds() - cpu:.4f}",
            "seconds": f"{time.perf_counter() - clock:.4f}",
        }
        print(json.dumps({"steps": steps} | seconds), flush=True)
