"""Environments in worker processes, stepped side by side.

Each worker has the same `Environments` as a run without workers, with the same seeds,
so results and checkpoints are the same bit for bit. Actions and results pass through
shared memory. Workers are new Python processes and no forks, which would be unsafe
beside JAX's threads.
"""

import builtins
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from jaxrl.envs import making, shared_memory
from jaxrl.envs.conversion import spec_of
from jaxrl.envs.gym import Episode, Stepped, check_finite
from jaxrl.envs.shared_memory import SharedSteps

SECONDS = 5  # for a worker to end


class Worker(NamedTuple):
    """A worker process, its connection and its environments."""

    process: subprocess.Popen
    connection: Connection
    rows: slice


class Workers:
    """N gymnasium environments in several processes, with the methods of one batch."""

    def __init__(
        self,
        env_id: str,
        seeds: Sequence[int],
        max_ep_len: int,
        env_kwargs: Mapping[str, Any],
        workers: int,
    ) -> None:
        one = making.make(env_id, env_kwargs)  # in which mistakes show at once
        self.spec = spec_of(one)
        one.close()
        self.finished: list[Episode] = []
        self._count = len(seeds)
        self._shared = SharedSteps(self.spec, self._count)
        memory = shared_memory.create(self._shared.size)
        self._shared.open(memory)
        ends = [self._count * i // workers for i in range(workers + 1)]
        settings = {
            "env": env_id,
            "env_kwargs": dict(env_kwargs),
            "max_ep_len": max_ep_len,
            "count": self._count,
            "memory": memory,
        }
        self._workers = []
        try:
            for first, end in itertools.pairwise(ends):
                own = settings | {"seeds": list(seeds[first:end]), "first": first}
                self._workers.append(_start(own, slice(first, end), memory))
        finally:
            os.close(memory)
        self._receive()

    @property
    def obs(self) -> np.ndarray:
        """The current observations."""
        return self._shared["obs"]

    @property
    def rewards(self) -> list[float]:
        """Of the last step, in double precision."""
        return self._shared["exact_reward"].tolist()

    def step(self, action: np.ndarray) -> Stepped:
        """Steps each environment; adds finished episodes to `finished`."""
        check_finite("action", action)
        command = b"a" + self._shared.write_action(action).encode()
        self._ask([command] * len(self._workers))
        after = Stepped(*(self._shared[name].copy() for name in Stepped._fields))
        for i in np.flatnonzero(after.terminated | after.truncated):
            returned = float(self._shared["episode_return"][i])
            length = int(self._shared["episode_length"][i])
            self.finished.append(Episode(returned, length))
        return after

    def take_finished(self) -> list[Episode]:
        """The episodes finished since the last call."""
        finished, self.finished = self.finished, []
        return finished

    def saved(self) -> dict[str, Any]:
        """The state for `restore`, as of environments without workers."""
        whole: dict[str, Any] = {
            "obs": self.obs.copy(),
            "returned": [],
            "finished": [list(episode) for episode in self.finished],
            "origins": [],
            "actions": [],
        }
        for message in self._ask([b"s"] * len(self._workers)):
            saved, arrays = shared_memory.unpack(message)
            whole["returned"] += saved["returned"]
            whole["origins"] += saved["origins"]
            whole["actions"] += [arrays[str(i)] for i in range(len(arrays))]
        return whole

    def restore(self, saved: Mapping[str, Any]) -> list[int]:
        """Continues from `saved`; returns the environments that were reset instead."""
        self.finished = [Episode(*episode) for episode in saved["finished"]]
        messages = []
        for worker in self._workers:
            part = {name: saved[name][worker.rows] for name in ("returned", "origins")}
            arrays = {str(i): x for i, x in enumerate(saved["actions"][worker.rows])}
            arrays["obs"] = saved["obs"][worker.rows]
            packed = shared_memory.pack(part | {"finished": []}, arrays)
            messages.append(b"r" + packed)
        answers = self._ask(messages)
        return [
            worker.rows.start + i
            for worker, answer in zip(self._workers, answers, strict=True)
            for i in json.loads(answer)
        ]

    def close(self) -> None:
        """Ends the worker processes."""
        for worker in self._workers:
            worker.connection.close()  # which ends it
        for worker in self._workers:
            try:
                worker.process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()

    def _ask(self, messages: Sequence[bytes]) -> list[bytes]:
        for worker, message in zip(self._workers, messages, strict=True):
            with contextlib.suppress(OSError):  # it is dead, which shows below
                worker.connection.send_bytes(message)
        return self._receive()

    def _receive(self) -> list[bytes]:
        """The answers; raises what went wrong in one, after all have answered."""
        answers = [_answer(i, worker) for i, worker in enumerate(self._workers)]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return [answer for answer in answers if isinstance(answer, bytes)]


def _start(settings: dict[str, Any], rows: slice, memory: int) -> Worker:
    ours, theirs = Pipe()
    files = (theirs.fileno(), memory)
    words = [str(theirs.fileno()), str(os.getpid()), json.dumps(settings)]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "jaxrl.envs.worker", *words],
        stdin=subprocess.DEVNULL,
        # It finds the modules that this process finds, and no others.
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        pass_fds=files,
        process_group=0,  # so that Ctrl-C comes to the run alone
    )
    theirs.close()
    return Worker(process, ours, rows)


def _answer(number: int, worker: Worker) -> bytes | Exception:
    """What it sent; an error if it raised one or ended."""
    try:
        message = worker.connection.recv_bytes()
    except (EOFError, OSError):
        return ChildProcessError(
            f"environment worker {number} (environments {worker.rows.start} to "
            f"{worker.rows.stop - 1}) {_ending(worker.process)}"
        )
    if message[:1] == b".":
        return message[1:]
    about = json.loads(message[1:])
    kind = getattr(builtins, about["type"], None)
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        error: Exception = RuntimeError(f"{about['type']}: {about['text']}")
    else:
        error = kind(about["text"])
    error.add_note(f"In environment worker {number}:\n{about['traceback']}")
    return error


def _ending(process: subprocess.Popen) -> str:
    try:
        code = process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        return "closed its connection"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
