"""Shuffled minibatches of a rollout, and a replay buffer on the device."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.types import Transition, Tree


def flatten(rollout: Tree) -> Tree:
    """[T, N, ...] to [T·N, ...], for which XLA's matrix products are faster."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rollout)


def minibatches(rollout: Tree, count: int, key: jax.Array) -> Tree:
    """[T, N, ...] to [count, T // count · N, ...]: time steps, shuffled.

    A minibatch holds its time steps of all environments, so that it stays the same
    minibatch when the environments are split over learners. Leftover steps are dropped.
    """
    if count == 1:
        return jax.tree.map(lambda x: x[None], flatten(rollout))
    steps = len(jax.tree.leaves(rollout)[0])
    if steps < count:
        raise ValueError(
            f"cannot split a rollout of {steps} steps into {count} minibatches; "
            f"collect at least {count} steps per environment or use fewer minibatches"
        )
    order = jax.random.permutation(key, steps)[: steps // count * count]
    return jax.tree.map(lambda x: x[order].reshape(count, -1, *x.shape[2:]), rollout)


class DeviceReplay(NamedTuple):
    """A ring buffer of the latest transitions [capacity, ...], on the device."""

    rows: Transition
    next: jax.Array  # index of the next write
    filled: jax.Array  # number of transitions held

    @classmethod
    def empty(cls, like: Transition, capacity: int) -> "DeviceReplay":
        """An empty buffer for `capacity` transitions of the shapes of one, `like`."""
        rows = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), like)
        return cls(rows, jnp.zeros((), int), jnp.zeros((), int))

    def insert(self, rollout: Transition) -> "DeviceReplay":
        """The buffer with `rollout` [T, N, ...] in place of its oldest transitions."""
        capacity = len(self.rows.reward)
        flat = jax.tree.map(lambda x: x[-capacity:], flatten(rollout))
        where = (self.next + jnp.arange(len(flat.reward))) % capacity
        rows = jax.tree.map(lambda old, new: old.at[where].set(new), self.rows, flat)
        filled = jnp.minimum(self.filled + len(where), capacity)
        return DeviceReplay(rows, (where[-1] + 1) % capacity, filled)

    def sample(self, key: jax.Array, *shape: int) -> Transition:
        """Transitions [*shape, ...] drawn uniformly, with replacement."""
        # Of 2³² equally likely numbers: for a million rows even to 1 in 4000.
        bits = jax.random.bits(key, shape)
        index = (bits % self.filled.astype(bits.dtype)).astype(int)
        return jax.tree.map(lambda x: x[index], self.rows)
