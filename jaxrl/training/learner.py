"""The update of an algorithm as one compiled call."""

import contextlib
import ctypes
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxrl.training.experience import unpack
from jaxrl.types import Algorithm, Metrics


def replayed(algo: Algorithm, obs_size: int) -> Callable[[Any, jax.Array], Any]:
    """Updates on the ring's rows [updates, batch, width], one after another."""

    def learn(state: Any, rows: jax.Array) -> tuple[Any, Metrics]:
        return jax.lax.scan(algo.update, state, unpack(rows, obs_size))

    return learn


class Learner:
    """`learn(state, batch)`, compiled beside the first steps of a run."""

    def __init__(self, learn: Callable[[Any, Any], Any], state: Any, batch: Any):
        shapes = jax.eval_shape(lambda: (state, batch))
        self.metrics: Metrics = jax.eval_shape(learn, *shapes)[1]
        self._jitted = jax.jit(learn, donate_argnums=0)
        self._shapes, self._compiled = shapes, threading.Event()

    def compile(self) -> None:
        """Begins, and does not wait."""
        threading.Thread(target=self._compile).start()

    def _compile(self) -> None:
        try:
            self._learn = self._jitted.lower(*self._shapes).compile()
        except Exception as error:
            self._error: Exception | None = error
        else:
            self._error = None
        _give_memory_back()
        self._compiled.set()

    def ready(self, seconds: float) -> bool:
        """Whether it is compiled, waiting for so long if not."""
        return self._compiled.wait(seconds)

    def __call__(self, state: Any, batch: Any) -> tuple[Any, dict[str, np.ndarray]]:
        self._compiled.wait()
        if self._error:
            raise self._error
        state, metrics = self._learn(state, batch)
        return state, {name: np.asarray(value) for name, value in metrics.items()}


def _give_memory_back() -> None:
    """To the system: the compiler took some hundred megabytes, and needs no more."""
    with contextlib.suppress(OSError, AttributeError):  # where there is no glibc
        ctypes.CDLL(None).malloc_trim(0)
