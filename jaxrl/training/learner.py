"""The update of an algorithm as one compiled call."""

import contextlib
import ctypes
import functools
import threading
from typing import Any

import jax
import numpy as np

from jaxrl.parallel.devices import Devices, Learn
from jaxrl.training.experience import unpack
from jaxrl.types import Algorithm, Metrics, Pmean, identity


def replayed(algo: Algorithm, obs_size: int) -> Learn:
    """Updates on the ring's rows [updates, batch, width], one after another."""

    def learn(state: Any, rows: jax.Array, pmean: Pmean) -> tuple[Any, Metrics]:
        update = functools.partial(algo.update, pmean=pmean)
        return jax.lax.scan(update, state, unpack(rows, obs_size))

    return learn


class Learner:
    """`learn(state, batch)`, compiled beside the first steps of a run.

    Devices share its batches along `axis`.
    """

    def __init__(
        self, learn: Learn, state: Any, batch: Any, axis: int, devices: Devices
    ) -> None:
        self._learn, self._devices, self._axis = learn, devices, axis
        self._shapes = jax.eval_shape(lambda: (state, batch))
        alone = functools.partial(learn, pmean=identity)
        self.metrics: Metrics = jax.eval_shape(alone, *self._shapes)[1]
        self._compiled = threading.Event()

    def compile(self) -> None:
        """Begins, and does not wait."""
        threading.Thread(target=self._compile).start()

    def _compile(self) -> None:
        try:
            state, batch = self._shapes
            program = self._devices.compile(self._learn, state, batch, self._axis)
            self._program = program
        except Exception as error:
            self._error: Exception | None = error
        else:
            self._error = None
        _give_memory_back()
        self._compiled.set()

    def ready(self, seconds: float) -> bool:
        """Whether it is compiled, waiting for so long if not."""
        return self._compiled.wait(seconds)

    def __call__(
        self, state: Any, batch: Any
    ) -> tuple[Any, dict[str, np.ndarray], np.ndarray | None]:
        """The state, its metrics, and where several learn their fingerprints."""
        self._compiled.wait()
        if self._error:
            raise self._error
        parts = self._devices.split(batch, self._axis)
        state, metrics, prints = self._program(state, parts)
        values = {name: np.asarray(value) for name, value in metrics.items()}
        return state, values, None if prints is None else np.atleast_1d(prints)


def _give_memory_back() -> None:
    """To the system: the compiler took some hundred megabytes, and needs no more."""
    with contextlib.suppress(OSError, AttributeError):  # where there is no glibc
        ctypes.CDLL(None).malloc_trim(0)
