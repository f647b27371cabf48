"""The update of an algorithm as one compiled call."""

import contextlib
import ctypes
import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.maths import dense
from jaxrl.parallel.devices import Devices, Learn
from jaxrl.training import returned
from jaxrl.training.buffers import unpack
from jaxrl.types import Algorithm, Metrics, Pmean, identity


def one_update(algo: Algorithm) -> Learn:
    """An update on a batch, whose result is checked: a user may have written it."""

    def learn(state: Any, batch: Any, pmean: Pmean) -> tuple[Any, Metrics]:
        with dense.fast_gradients():
            return returned.result(algo.update(state, batch, pmean=pmean))

    return learn


def scan_updates(algo: Algorithm, obs_size: int) -> Learn:
    """Updates on replay rows [updates, batch, width], one after another."""

    def learn(state: Any, rows: jax.Array, pmean: Pmean) -> tuple[Any, Metrics]:
        update = functools.partial(one_update(algo), pmean=pmean)
        return jax.lax.scan(update, state, unpack(rows, obs_size))

    return learn


class UpdateResult(NamedTuple):
    """The result of one call of the learner."""

    state: Any
    metrics: dict[str, np.ndarray]
    finite: bool
    """Whether all of the state is finite, but for settings, which may be infinite."""
    fingerprints: np.ndarray | None
    """One per device, where there are several."""


def _with_finite_check(learn: Learn) -> Learn:
    """Also returns whether the new state is finite."""

    def checked(state: Any, batch: Any, pmean: Pmean) -> tuple[Any, tuple]:
        state, metrics = learn(state, batch, pmean=pmean)
        return state, (metrics, all_finite(state))

    return checked


def all_finite(state: Any) -> jax.Array:
    """Whether the state is, but for settings, which may be infinite."""
    learned = jax.tree.leaves(dataclasses.replace(state, config=None))
    numbers = [x for x in learned if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.stack([jnp.isfinite(x).all() for x in numbers]).all()


class Learner:
    """`learn(state, batch)`, compiled in a thread during the first steps of a run.

    There is one program for each of the `batches`' lengths, which are given as shapes.
    Devices share a batch along `axis`.
    """

    def __init__(
        self,
        learn: Learn,
        state: Any,
        batches: Sequence[Any],
        axis: int,
        devices: Devices,
    ) -> None:
        self._learn, self._devices, self._axis = learn, devices, axis
        self._state, self._batches = jax.eval_shape(lambda: (state, batches))
        alone = functools.partial(learn, pmean=identity)
        shapes = jax.eval_shape(alone, self._state, self._batches[0])
        self.metrics: Metrics = shapes[1]
        self._programs: dict[int, Callable] = {}
        self._compiled = threading.Event()

    def compile(self) -> None:
        """Starts compiling in a thread."""
        threading.Thread(target=self._compile).start()

    def _compile(self) -> None:
        try:
            learn = _with_finite_check(self._learn)
            for batch in self._batches:
                arguments = learn, self._state, batch, self._axis
                self._programs[_length(batch)] = self._devices.compile(*arguments)
        except Exception as error:
            self._error: Exception | None = error
        else:
            self._error = None
        _return_memory()
        self._compiled.set()

    def ready(self, seconds: float) -> bool:
        """Whether it is compiled; waits up to `seconds` for it."""
        return self._compiled.wait(seconds)

    def __call__(self, state: Any, batch: Any) -> UpdateResult:
        self._compiled.wait()
        if self._error:
            raise self._error
        parts = self._devices.split(batch, self._axis)
        program = self._programs[_length(batch)]
        state, (metrics, finite), prints = program(state, parts)
        values = {name: np.asarray(value) for name, value in metrics.items()}
        prints = None if prints is None else np.atleast_1d(prints)
        return UpdateResult(state, values, bool(np.all(finite)), prints)


def _length(batch: Any) -> int:
    """Of its first axis: the updates on replay rows, or the steps of a rollout."""
    return jax.tree.leaves(batch)[0].shape[0]


def _return_memory() -> None:
    """Returns some hundred megabytes of the compiler to the system."""
    with contextlib.suppress(OSError, AttributeError):  # where there is no glibc
        ctypes.CDLL(None).malloc_trim(0)
