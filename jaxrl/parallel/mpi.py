"""Communication between ranks, by MPI; with one process, nothing is sent.

All ranks call these functions together, in the same order. MPI is imported at the first
message, because importing it starts it. Bytes and numbers are sent, never pickles.
"""

import contextlib
import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback
from jax.flatten_util import ravel_pytree

from jaxrl.errors import UserError
from jaxrl.logging.stats import Stats, merge
from jaxrl.parallel.watchdog import Watchdog, local_pids, process_id
from jaxrl.processes import ranks
from jaxrl.processes.ranks import rank as rank
from jaxrl.processes.ranks import size as size
from jaxrl.types import Pmean, Tree, identity


class Communicators(NamedTuple):
    """One for each thread that sends, so that their messages are not mixed up."""

    main: Any
    update: Any
    watchdog: Any


@functools.cache
def _communicators() -> Communicators:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:100]
        raise UserError(
            f"several processes need mpi4py and an MPI library ({reason}); pip install "
            "'jaxrl[mpi]' brings both"
        ) from None
    world = MPI.COMM_WORLD
    if world.size != size():
        raise UserError(
            f"the launcher started {size()} processes, but MPI sees {world.size}: it "
            "is not of the MPI that mpi4py found (with Slurm, try srun --mpi=pmix)"
        )
    ranks.abort_on_uncaught_error()
    return Communicators(world, world.Dup(), world.Dup())


# The training loop reports its progress; scripts need not.

_watchdog: Watchdog | None = None


@contextlib.contextmanager
def watchdog() -> Iterator[None]:
    """Ends all ranks if one dies or makes no progress; they leave it together."""
    global _watchdog
    if size() == 1:
        yield
        return
    everyone = [m.decode() for m in allgather(process_id().encode())]
    _watchdog = Watchdog(
        _communicators().watchdog,
        local_pids(everyone),
        lambda reason: ranks.end_all(1, reason),
    )
    yield
    _watchdog.end()  # not after an error, which ends all
    _watchdog = None


def report_progress() -> None:
    """Tells the watchdog that this rank is making progress."""
    if _watchdog:
        _watchdog.report_progress()


def paused() -> contextlib.AbstractContextManager[None]:
    """While this rank waits for others or does something of unknown duration."""
    return _watchdog.paused() if _watchdog else contextlib.nullcontext()


def _main() -> Any:
    return _communicators().main


# Trees


def broadcast(tree: Tree) -> Tree:
    """Rank 0's tree, on every rank; the others give one of the same shapes."""
    return tree if size() == 1 else jax.tree.map(_broadcast, tree)


def _broadcast(leaf: Any) -> np.ndarray:
    values = np.array(leaf, order="C")
    with paused():
        _main().Bcast(values.reshape(-1).view(np.uint8))
    return values


def allreduce_sum(tree: Tree) -> Tree:
    """The sum over ranks, leaf by leaf."""
    return tree if size() == 1 else jax.tree.map(_sum, tree)


def _sum(leaf: Any) -> np.ndarray:
    values = np.asarray(leaf, order="C")
    total = np.empty_like(values)
    with paused():
        _main().Allreduce(values, total)
    return total


def allreduce_mean(tree: Tree) -> Tree:
    """The mean over ranks, leaf by leaf."""
    return jax.tree.map(lambda total: total / size(), allreduce_sum(tree))


def statistics(values: Any) -> Stats:
    """Count, mean, deviation, minimum and maximum of the values of all ranks.

    A rank may have none.
    """
    return reduce_stats({"": Stats.from_values(values)})[""]


def reduce_stats(samples: Mapping[str, Stats]) -> dict[str, Stats]:
    """The samples of all ranks together, by name; a rank may lack some."""
    if size() == 1:
        return dict(samples)
    own = {name: dataclasses.astuple(stats) for name, stats in samples.items()}
    found: dict[str, Stats] = {}
    for message in allgather(json.dumps(own).encode()):
        for name, parts in json.loads(message).items():
            found[name] = merge(found.get(name, Stats()), Stats(*parts))
    return found


# Bytes and rows


def allgather(message: bytes) -> list[bytes]:
    """The messages of all ranks, by rank."""
    if size() == 1:
        return [message]
    lengths = np.zeros(size(), np.int64)
    with paused():
        _main().Allgather(np.array([len(message)], np.int64), lengths)
        everything = np.empty(lengths.sum(), np.uint8)
        _main().Allgatherv(
            np.frombuffer(message, np.uint8), (everything, lengths.tolist())
        )
    ends = np.cumsum(lengths)
    return [everything[end - n : end].tobytes() for n, end in zip(lengths, ends)]  # noqa: B905


def bcast_bytes(message: bytes = b"") -> bytes:
    """Rank 0's message, on every rank."""
    if size() == 1:
        return message
    length = int(_broadcast(np.int64(len(message))))
    padded = message.ljust(length)[:length]
    return _broadcast(np.frombuffer(padded, np.uint8)).tobytes()


def bcast_int(value: int) -> int:
    """Rank 0's value, on every rank."""
    return value if size() == 1 else int(_broadcast(np.int64(value)))


def allreduce_max(*values: int) -> list[int]:
    """The maximum of each value over ranks."""
    if size() == 1:
        return list(values)
    from mpi4py import MPI

    found = np.array(values, np.int64)
    with paused():
        _main().Allreduce(MPI.IN_PLACE, found, MPI.MAX)
    return found.tolist()


def gather(rows: np.ndarray) -> np.ndarray | None:
    """To rank 0, the rows [n, ...] of all ranks side by side [n, ranks, ...]."""
    if size() == 1:
        return rows
    everyone = np.empty((size(), *rows.shape), rows.dtype) if rank() == 0 else None
    with paused():
        _main().Gather(np.ascontiguousarray(rows), everyone)
    return None if everyone is None else np.moveaxis(everyone, 0, 1)


def scatter(rows: np.ndarray | None, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """From rank 0 what `gather` brought there; `shape` [n, ...] is a rank's own."""
    if size() == 1:
        assert rows is not None
        return rows
    own = np.empty(shape, dtype)
    parts = None if rows is None else np.ascontiguousarray(np.moveaxis(rows, 1, 0))
    with paused():
        _main().Scatter(parts, own)
    return own


# Inside a compiled update


def ordered_pmean() -> Pmean:
    """The mean over ranks, as a step of the program in whose trace this is called."""
    if size() == 1:
        return identity
    # Each mean takes the turn from the one before it and hands it on: two that do not
    # depend on each other must not change places in one rank only.
    turn = jax.new_ref(jnp.zeros((), int))

    def pmean(tree: Tree) -> Tree:
        flat, unravel = ravel_pytree(tree)
        mean, turn[...] = _mean(flat, turn[...])
        return unravel(mean)

    return pmean


def _mean(flat: jax.Array, turn: jax.Array) -> tuple[jax.Array, jax.Array]:
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (flat, turn)
    )
    if jax.default_backend() == "cpu":
        # On JAX's own memory: io_callback costs four times as much, and it receives
        # large arrays by way of threads that may be waiting for this very callback.
        mean = buffer_callback(_mean_in_place, shapes, has_side_effect=True)
        return mean(flat, turn)
    return io_callback(_mean_of_copies, shapes, flat, turn)


def _mean_in_place(_: Any, results: tuple, flat: Any, turn: Any) -> None:
    mean, next_turn = map(np.asarray, results)
    _allreduce(np.asarray(flat), mean)
    next_turn[...] = np.asarray(turn)


def _mean_of_copies(flat: jax.Array, turn: jax.Array) -> tuple[np.ndarray, jax.Array]:
    mean = np.empty_like(flat)
    _allreduce(np.asarray(flat), mean)
    return mean, turn


def _allreduce(values: np.ndarray, mean: np.ndarray) -> None:
    with paused():
        _communicators().update.Allreduce(values, mean)
    mean /= size()


def refuse_drift(fingerprints: np.ndarray, where: str) -> None:
    """Raises if the learners' parameters differ; `fingerprints` [devices]."""
    prints = np.ascontiguousarray(fingerprints, np.uint32)
    everyone = [np.frombuffer(m, np.uint32) for m in allgather(prints.tobytes())]
    values, counts = np.unique(np.concatenate(everyone), return_counts=True)
    if len(values) == 1:
        return
    # The majority is right; where there is none, rank 0's first device is.
    most = counts.max() * 2 > counts.sum()
    right = values[counts.argmax()] if most else everyone[0][0]
    drifted = [
        f"rank {r}" + (f", device {d}" if len(own) > 1 else "")
        for r, own in enumerate(everyone)
        for d, value in enumerate(own)
        if value != right
    ]
    raise FloatingPointError(
        f"the parameters of {' and '.join(drifted)} differ from the others' {where}"
    )
