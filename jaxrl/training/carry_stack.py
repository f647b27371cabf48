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
        carries = [self._split(starts.pop(i, some)) for i in range(self.size)]
        structure = jax.tree.structure(carries[0])
        leaves = [list(x) for x in zip(*map(jax.tree.leaves, carries), strict=True)]
        del some, carries
        # One after the other, so that all replay buffers are not there twice.
        stacked = [self._stack(leaves.pop(0)) for _ in range(len(leaves))]
        self.carries = jax.tree.unflatten(structure, stacked)

    def _split(self, carry: Carry) -> Carry:
        """With a copy of its state for each device, where they share a run."""
        if not self.splits_envs:
            return carry
        return carry._replace(state=self.copies(carry.state))

    def copies(self, tree: Any) -> Any:
        """[devices, ...]."""
        count = self.devices.count
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), tree)

    def _stack(self, of_runs: Sequence[jax.Array]) -> jax.Array:
        stack = jnp.stack(of_runs)
        if not self.splits_envs:
            stack = stack.reshape(*self.shape[::-1], *stack.shape[1:])
        return self.devices.scatter(jnp.swapaxes(stack, 0, 1))

    def mask(self, runs: Sequence[int]) -> np.ndarray:
        """Which of the carries are those of `runs`, in the shape of the stack."""
        mask = np.zeros(self.shape, bool)
        for device, number in map(self._place, runs):
            mask[slice(None) if device is None else device, number] = True
        return mask

    def parts_of(self, tree: Any, run: int) -> list[Any]:
        """Of a tree [devices, runs of a device, ...] those of a run's devices."""
        device, number = self._place(run)
        devices = range(self.devices.count) if device is None else [device]
        return [jax.tree.map(lambda x, d=d: x[d, number], tree) for d in devices]

    def state(self, run: int) -> Any:
        """The algorithm's."""
        device, number = self._place(run)
        part = self.devices.part
        return jax.tree.map(lambda x: part(x, device or 0)[number], self.carries.state)

    def rest(self, run: int, rows: bool = True) -> Carry:
        """A run's carry without its state and, if not asked for, its buffer's rows."""
        carries = self.carries._replace(state=())
        if not rows:
            carries = carries._replace(buffer=carries.buffer._replace(rows=()))
        return jax.tree.map(lambda x: self._of_run(x, run), carries)

    def _of_run(self, x: jax.Array, run: int) -> Any:
        device, number = self._place(run)
        if device is not None:
            return self.devices.part(x, device)[number]
        parts = [self.devices.part(x, d)[number] for d in range(self.devices.count)]
        return np.stack([np.asarray(arrays.key_data(part)) for part in parts])

    def is_finite(self, run: int) -> bool:
        """Whether all its observations, rewards and parameters so far are."""
        return bool(np.all(self._of_run(self.carries.finite, run)))
