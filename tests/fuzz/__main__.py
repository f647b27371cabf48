"""`python -m tests.fuzz`: runs the cases and lists those that fail."""

import argparse
import collections
import contextlib
import gc
import importlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from . import processes
from .judging import Verdict, judge
from .sandbox import Sandbox

# Imported before the first fork; none of them starts a thread.
MODULES = [
    "jaxrl.cli.main",
    *(f"jaxrl.cli.{name}" for name in ("train", "grid", "resume", "rerun", "plot")),
    *(f"jaxrl.cli.{name}" for name in ("verify", "new", "check")),
    *(f"jaxrl.cli.{name}" for name in ("eval", "export", "report", "ls", "options")),
    *("jaxrl.training.train", "jaxrl.runs.directory", "matplotlib.pyplot"),
    *("gymnasium.envs.classic_control.cartpole", "jaxrl.show.video"),
]


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    add = parser.add_argument
    add("--cases", type=int, default=1000, help="how many, from the first [1000]")
    add("--first", type=int, default=0, help="number of the first case [0]")
    add("--case", type=int, nargs="+", help="only these, with their output")
    add("--seed", type=int, default=0, help="other cases [0]")
    add("--jobs", type=int, default=1, help="cases at a time [1]")
    given = parser.parse_args()
    numbers = given.case or range(given.first, given.first + given.cases)
    import_all()
    start = time.monotonic()
    with sandbox() as made:
        made.build()
        print(f"templates made in {time.monotonic() - start:.0f} s", flush=True)
        failed = _in_parts(made, given.seed, list(numbers), given.jobs, given.case)
    seconds = time.monotonic() - start
    right = len(numbers) - failed
    print(
        f"{right} of {len(numbers)} cases passed in {seconds:.0f} s, seed {given.seed}"
    )
    return 1 if failed else 0


def import_all() -> None:
    for name in MODULES:
        importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("an import started a thread; a fork would not have it")
    gc.collect()
    gc.freeze()  # so that a fork copies less
    processes.prepare()


@contextlib.contextmanager
def sandbox() -> Iterator[Sandbox]:
    owner, root = os.getpid(), tempfile.mkdtemp(prefix="jaxrl-fuzz-")
    try:
        yield Sandbox(Path(root).resolve())
    finally:
        if os.getpid() == owner:  # and not a fork of it
            shutil.rmtree(root, ignore_errors=True)


def _in_parts(
    sandbox: Sandbox, seed: int, numbers: list[int], jobs: int, verbose: bool
) -> int:
    """The number of failures."""
    if jobs == 1:
        return _run(sandbox, seed, numbers, verbose)
    workers = []
    for part in range(jobs):
        sys.stdout.flush()
        if pid := os.fork():
            workers.append(pid)
            continue
        processes.prepare()
        failed = _run(sandbox, seed, numbers[part::jobs], verbose)
        sys.stdout.flush()
        os._exit(min(failed, 250))
    return sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in workers)


def _run(sandbox: Sandbox, seed: int, numbers: list[int], verbose: bool) -> int:
    causes: collections.Counter[str] = collections.Counter()
    failed = 0
    for number in numbers:
        verdict = judge(sandbox, seed, number)
        if verdict.faults or verbose:
            _show(verdict, verbose)
        failed += bool(verdict.faults)
        causes.update({re.sub(r"\d+", "N", fault)[:100] for fault in verdict.faults})
    for cause, count in causes.most_common():
        print(f"{count:5} x {cause}")
    return failed


def _show(verdict: Verdict, verbose: bool) -> None:
    case, outcome = verdict.case, verdict.outcome
    print(f"{'FAILED' if verdict.faults else 'passed'} {case.number} {case.shown}")
    for fault in verdict.faults:
        print(f"       {fault}")
    if verbose:
        size = outcome.memory // 1000
        print(f"       exit code {outcome.code}, {outcome.seconds:.1f} s, {size} MB")
        print(verdict.printed)
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
