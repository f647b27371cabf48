"""The carries of several runs as one tree, and where each run is in it."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.parallel.devices import Devices
from jaxrl.runs import arrays
from jaxrl.training.fused import Carry


class CarryStack:
    """Carries of `size` runs, stacked [devices, runs of a device, ...].

    Each device has some of the runs or, with `splits_envs`, some environments of every
    run. Then a run's carry, except its state, is [devices, ...].
    """

    def __init__(self, size: int, devices: Devices, splits_envs: bool) -> None:
        self.size, self.devices, self.splits_envs = size, devices, splits_envs
        self.carries: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Devices, and runs of a device."""
        count = self.devices.count
        return count, self.size if self.splits_envs else self.size // count

    def _place(self, run: int) -> tuple[int | None, int]:
        """Its device, None if all have a part of it, and its number there."""
        if self.splits_envs:
            return None, run
        return run % self.devices.count, run // self.devices.count

    def fill(self, starts: dict[int, Carry]) -> None:
        """Takes the carries of the runs; one that has none is not trained."""
        some = next(iter(starts.values()))
        carries = [starts.pop(i, some) for i in range(self.size)]
        rows = [carry.buffer.rows for carry in carries]
        small = [_without_rows(carry) for carry in carries]
        structure = jax.tree.structure(rows[0])
        leaves = [list(x) for x in zip(*map(jax.tree.leaves, rows), strict=True)]
        del some, carries, rows
        # One after the other, so that all replay buffers are not there twice. The rest
        # in one program, which compiles faster than one for each shape.
        stacked = [
            self.devices.scatter(self._stack(*leaves.pop(0)))
            for _ in range(len(leaves))
        ]
        filled = self.devices.scatter(jax.jit(self._stack_trees)(*small))
        buffer = filled.buffer._replace(rows=jax.tree.unflatten(structure, stacked))
        self.carries = filled._replace(buffer=buffer)

    def _stack_trees(self, *carries: Carry) -> Carry:
        """With a copy of its state for each device, where they share a run."""
        if self.splits_envs:
            carries = tuple(x._replace(state=self.copies(x.state)) for x in carries)
        return jax.tree.map(self._stack, *carries)

    def copies(self, tree: Any) -> Any:
        """[devices, ...]."""
        count = self.devices.count
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), tree)

    def _stack(self, *of_runs: jax.Array) -> jax.Array:
        stack = jnp.stack(of_runs)
        if not self.splits_envs:
            stack = stack.reshape(*self.shape[::-1], *stack.shape[1:])
        return jnp.swapaxes(stack, 0, 1)

    def mask(self, runs: Sequence[int]) -> np.ndarray:
        """Which of the carries are those of `runs`, in the shape of the stack."""
        mask = np.zeros(self.shape, bool)
        for device, number in map(self._place, runs):
            mask[slice(None) if device is None else device, number] = True
        return mask

    def _devices_of(self, run: int) -> Sequence[int]:
        """Those that have a part of it."""
        device, _ = self._place(run)
        return range(self.devices.count) if device is None else [device]

    def parts_of(self, tree: Any, run: int) -> list[Any]:
        """Of a tree [devices, runs of a device, ...] those of a run's devices."""
        _, number = self._place(run)
        return [
            jax.tree.map(lambda x, d=device: x[d, number], tree)
            for device in self._devices_of(run)
        ]

    def state(self, run: int) -> Any:
        """The algorithm's."""
        return self._copy(self.carries.state, run, self._devices_of(run)[0])

    def rest(self, run: int, rows: bool = True) -> Carry:
        """A run's carry without its state and, if not asked for, its buffer's rows."""
        carries = self.carries._replace(state=())
        carries = carries if rows else _without_rows(carries)
        parts = [self._copy(carries, run, d) for d in self._devices_of(run)]
        return jax.tree.map(_together, *parts) if self.splits_envs else parts[0]

    def _copy(self, tree: Any, run: int, device: int) -> Any:
        """Of what a device has of a run."""
        _, number = self._place(run)
        return _entry(self.devices.part(tree, device), number)

    def is_finite(self, run: int) -> bool:
        """Whether all its observations, rewards and parameters so far are."""
        _, number = self._place(run)
        finite = self.carries.finite
        parts = [self.devices.part(finite, d) for d in self._devices_of(run)]
        return all(np.asarray(part)[0, number] for part in parts)


@jax.jit  # else every array would take two calls, and every shape two programs
def _entry(part: Any, number: int) -> Any:
    """From a device's part [1, runs, ...], the run of that number."""
    return jax.tree.map(lambda x: x[0, number], part)


def _together(*parts: jax.Array) -> np.ndarray:
    return np.stack([np.asarray(arrays.key_data(part)) for part in parts])


def _without_rows(carry: Carry) -> Carry:
    return carry._replace(buffer=carry.buffer._replace(rows=()))
