"""A process that steps a part of a run's environments: python -m jaxrl.envs.worker.

It serves one connection and ends when that is closed, or with its parent.
"""

import contextlib
import json
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from jaxrl.envs import making
from jaxrl.envs.gym import Environments
from jaxrl.envs.shared_memory import SharedSteps, pack, unpack
from jaxrl.processes.signals import SIGNALS, die_with_parent


class Worker:
    """Some of a run's environments, and the rows of the shared memory for them."""

    def __init__(
        self,
        env: str,
        env_kwargs: dict[str, Any],
        seeds: list[int],
        max_ep_len: int,
        first: int,
        count: int,
        memory: int,
    ) -> None:
        """`first` is its first environment's number among all `count`."""
        made = [making.make(env, env_kwargs) for _ in seeds]
        self.envs = Environments(made, seeds, max_ep_len)
        self._rows = slice(first, first + len(seeds))
        self._shared = SharedSteps(self.envs.spec, count)
        self._shared.open(memory)
        self._write("obs", self.envs.obs)

    def _write(self, name: str, values: Any) -> None:
        self._shared[name][self._rows] = values

    def step(self, dtype: str) -> None:
        """Steps by the actions in the shared memory, and writes the results there."""
        after = self.envs.step(self._shared.read_action(dtype, self._rows))
        for name, values in after._asdict().items():
            self._write(name, values)
        self._write("obs", self.envs.obs)
        self._write("exact_reward", self.envs.rewards)
        over = np.flatnonzero(after.terminated | after.truncated)
        for i, episode in zip(over, self.envs.take_finished(), strict=True):
            self._shared["episode_return"][self._rows.start + i] = episode.returned
            self._shared["episode_length"][self._rows.start + i] = episode.length

    def saved(self) -> bytes:
        """What a checkpoint keeps of the environments, as a message."""
        saved = self.envs.saved()
        actions = saved.pop("actions")
        del saved["obs"]  # which the parent has
        return pack(saved, {str(i): each for i, each in enumerate(actions)})

    def restore(self, message: bytes) -> bytes:
        """Continues from what `saved` gave; answers with what could not be restored."""
        saved, arrays = unpack(message)
        obs = arrays.pop("obs")
        actions = [arrays[str(i)] for i in range(len(obs))]
        failed = self.envs.restore(saved | {"obs": obs, "actions": actions})
        self._write("obs", self.envs.obs)
        return json.dumps(failed).encode()

    def answer(self, message: bytes) -> bytes:
        """Does what a message asks for."""
        command, content = message[:1], message[1:]
        if command == b"a":  # act
            self.step(content.decode())
            return b""
        return self.saved() if command == b"s" else self.restore(content)


def failure(error: Exception) -> bytes:
    """For the parent, which raises the same."""
    about = {
        "type": type(error).__name__,
        "text": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }
    return b"!" + json.dumps(about).encode()


def main(words: list[str]) -> None:
    """Runs a worker until its connection closes."""
    connection_file, parent, settings = int(words[0]), int(words[1]), words[2]
    for one in SIGNALS:  # the parent handles them
        signal.signal(one, signal.SIG_IGN)
    die_with_parent(parent)
    connection: Connection = Connection(connection_file)
    try:
        worker = Worker(**json.loads(settings))
    except Exception as error:
        connection.send_bytes(failure(error))
    else:
        with contextlib.suppress(EOFError, OSError):  # the parent closed it or is dead
            serve(worker, connection)
    os._exit(0)  # without waiting for what an environment may have started


def serve(worker: Worker, connection: Connection) -> None:
    """Answers messages until the connection closes."""
    connection.send_bytes(b".")
    while True:
        message = connection.recv_bytes()
        try:
            answer = b"." + worker.answer(message)
        except Exception as error:
            answer = failure(error)
        connection.send_bytes(answer)


if __name__ == "__main__":
    main(sys.argv[1:])
