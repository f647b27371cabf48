"""Ends all ranks when one is dead or hangs, because the others would wait for it.

- Liveness: a rank whose process is gone ends all within seconds. The launcher usually
  sees to that; ranks of the same machine also watch each other's processes, because
  some launchers (srun without --kill-on-bad-exit) do not.
- Progress: a rank that exists but takes no step for minutes ends all. Each rank sends
  the next one the time since its last step. A rank that sends nothing (stopped, or in
  code that holds Python's lock) has as long.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.errors import UserError

STALL_SECONDS = "JAXRL_STALL_SECONDS"
DEFAULT_STALL_SECONDS = 600.0
# For the launcher, which knows how a rank died, and ends all ranks.
LAUNCHER_GRACE = 3.0
PERIOD = 1.0  # at most, between two looks at the processes
# MPI buffers what a stopped rank does not receive: send few messages until the limit.
MESSAGES = 20


class Watchdog:
    """Watches the previous rank's progress and the processes of this machine's ranks.

    `abort(reason)` ends all ranks.
    """

    def __init__(
        self,
        communicator: Any,
        local_pids: Mapping[int, int],
        abort: Callable[[str], None],
    ) -> None:
        self._comm, self._abort = communicator, abort
        self._previous = (communicator.rank - 1) % communicator.size
        self._next = (communicator.rank + 1) % communicator.size
        self._limit = stall_seconds()
        self._processes = LocalProcesses(local_pids)
        self._steps = self._pauses = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def report_progress(self) -> None:
        """Notes that this rank has taken a step."""
        self._steps += 1

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """While this rank waits for others or does something of unknown duration."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self._steps += 1

    def _run(self) -> None:
        period = min(PERIOD, self._limit / MESSAGES)
        own_idle = silence = since_message = 0.0
        received = np.zeros(1)  # the previous rank's time without progress
        steps, before = self._steps, time.monotonic()
        while not self._over.wait(period):
            now = time.monotonic()
            # While the whole job is suspended (Ctrl-Z), no time counts.
            passed, before = min(now - before, 2 * period), now
            progressed = self._pauses or self._steps != steps
            own_idle, steps = 0.0 if progressed else own_idle + passed, self._steps
            since_message += passed
            if since_message >= self._limit / MESSAGES:
                self._comm.Send(np.array([own_idle]), self._next)
                since_message = 0.0
            silence += passed
            while self._comm.Iprobe(self._previous):
                self._comm.Recv(received, self._previous)
                silence = 0.0
            if dead := self._processes.dead_for(LAUNCHER_GRACE):
                self._abort(f"{dead} exited without finalizing MPI; aborting all ranks")
                return
            if max(received[0], silence) > self._limit:
                self._abort(
                    f"rank {self._previous} made no progress for {self._limit:g} s; "
                    f"aborting all ranks (set {STALL_SECONDS} to wait longer)"
                )
                return

    def end(self) -> None:
        """All ranks call this together. Until all have, each is still watched."""
        with self.paused():
            self._comm.Barrier()
        self._over.set()
        self._thread.join()
        self._comm.Barrier()
        while self._comm.Iprobe(self._previous):
            self._comm.Recv(np.zeros(1), self._previous)
        self._processes.close()


class LocalProcesses:
    """Ranks of this machine, and whether their processes still exist."""

    def __init__(self, pids: Mapping[int, int]) -> None:
        self._ranks: dict[int, int] = {}  # by the descriptor of their process
        self._poll = select.poll()
        self._seen_dead = 0.0
        for rank, pid in pids.items():
            with contextlib.suppress(OSError, AttributeError):  # not on every system
                descriptor = os.pidfd_open(pid)
                self._ranks[descriptor] = rank
                self._poll.register(descriptor, select.POLLIN)

    def dead_for(self, seconds: float) -> str:
        """Names the ranks that are dead, after they were for so long; else empty."""
        dead = sorted(self._ranks[descriptor] for descriptor, _ in self._poll.poll(0))
        if not dead:
            return ""
        self._seen_dead = self._seen_dead or time.monotonic()
        if time.monotonic() - self._seen_dead < seconds:
            return ""
        return " and ".join(f"rank {rank}" for rank in dead)

    def close(self) -> None:
        """Closes what it watches."""
        for descriptor in self._ranks:
            os.close(descriptor)


def process_id() -> str:
    """The machine, its namespace of pids, and this process's pid."""
    machine = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        machine = f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    return f"{machine} {os.getpid()}"


def local_pids(process_ids: Sequence[str]) -> dict[int, int]:
    """The pids of the other ranks of this machine, by rank; given all ranks' ids."""
    machine, _, own_pid = process_id().rpartition(" ")
    split = [one.rpartition(" ") for one in process_ids]
    return {
        rank: int(pid)
        for rank, (where, _, pid) in enumerate(split)
        if machine and where == machine and pid != own_pid
    }


def stall_seconds() -> float:
    """The time without progress after which a rank counts as hanging."""
    text = os.environ.get(STALL_SECONDS, str(DEFAULT_STALL_SECONDS))
    with contextlib.suppress(ValueError):
        if float(text) > 0:
            return float(text)
    raise UserError(f"{STALL_SECONDS} is {text!r}, but must be a number of seconds > 0")
