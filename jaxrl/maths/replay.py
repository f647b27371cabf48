"""Samples drawn from what was gathered: a ring of transitions, shuffled minibatches."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.types import Transition, Tree


def flatten(rollout: Tree) -> Tree:
    """[T, N, ...] into [T·N, ...], which XLA multiplies faster."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rollout)


def minibatches(rollout: Tree, count: int, key: jax.Array) -> Tree:
    """[T, N, ...] into [count, T // count · N, ...], by time steps in random order.

    A minibatch holds its steps of all environments, so that it stays the same minibatch
    when the environments are spread over learners. A remainder sits out.
    """
    if count == 1:
        return jax.tree.map(lambda x: x[None], flatten(rollout))
    steps = len(jax.tree.leaves(rollout)[0])
    if steps < count:
        raise ValueError(
            f"cannot cut a rollout of {steps} steps into {count} minibatches; gather "
            f"at least {count} steps from each environment or ask for fewer minibatches"
        )
    order = jax.random.permutation(key, steps)[: steps // count * count]
    return jax.tree.map(lambda x: x[order].reshape(count, -1, *x.shape[2:]), rollout)


class Ring(NamedTuple):
    """The last transitions [capacity, ...], on the device."""

    rows: Transition
    next: jax.Array  # where the next transition goes
    filled: jax.Array

    @classmethod
    def empty(cls, like: Transition, capacity: int) -> "Ring":
        """With room for `capacity` transitions shaped as `like`, of one."""
        rows = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), like)
        return cls(rows, jnp.zeros((), int), jnp.zeros((), int))

    def insert(self, rollout: Transition) -> "Ring":
        """With the steps of `rollout` [T, N, ...] in place of the oldest."""
        capacity = len(self.rows.reward)
        flat = jax.tree.map(lambda x: x[-capacity:], flatten(rollout))
        where = (self.next + jnp.arange(len(flat.reward))) % capacity
        rows = jax.tree.map(lambda old, new: old.at[where].set(new), self.rows, flat)
        filled = jnp.minimum(self.filled + len(where), capacity)
        return Ring(rows, (where[-1] + 1) % capacity, filled)

    def sample(self, key: jax.Array, *shape: int) -> Transition:
        """Transitions [*shape, ...] drawn evenly, with replacement."""
        index = jax.random.randint(key, shape, 0, self.filled)
        return jax.tree.map(lambda x: x[index], self.rows)
