"""The compiled program of runs in a JAX environment.

A carry is all that a run is between two calls. Runs that differ only in keys and
real-valued settings share a program. On a CPU it is called for one run after the other,
so each has the bits that it has alone; elsewhere it trains all of them side by side by
vmap, which rounds differently. Several devices share the runs, or else each run's
environments.
"""

import functools
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl.maths import summary
from jaxrl.parallel import mpi
from jaxrl.parallel.devices import Devices, mean_over_devices
from jaxrl.training import fused
from jaxrl.training.carry_stack import CarryStack
from jaxrl.training.fused import Carry, Row
from jaxrl.training.jax_episodes import evaluate
from jaxrl.training.program import Program

SECONDS = 1.0  # of one call, between two looks for signals


class Call(NamedTuple):
    """What one call of the program did."""

    runs: list[int]
    rounds: int  # of each of them
    rows: list[list[Row]] | None
    """If their epoch is over, the rows of each run, one for each of its devices."""


class Engine:
    """Trains `size` runs that differ only in keys and real-valued settings."""

    def __init__(
        self,
        program: Program,
        networks: Any,
        config: Any,
        size: int = 1,
        devices: Devices | None = None,
    ) -> None:
        self.program, self.size = program, size
        self.devices = devices or Devices(1, 1, "the run")
        self.splits_envs = program.shards > mpi.size()
        self._group = size if self.runs_side_by_side() else self._runs_at_once
        self._stacks = [
            CarryStack(self._group, self.devices, self.splits_envs)
            for _ in range(0, size, self._group)
        ]
        begin = functools.partial(fused.begin, program=program, networks=networks)
        # It is called once for a run, so little is spent on its compilation.
        quick = {"xla_backend_optimization_level": 0} if self.devices.on_host else None
        self._begin = jax.jit(begin, compiler_options=quick)
        # With the arguments of `begin`, so that JAX traces it once for both.
        self.shapes: Carry = self._begin.eval_shape(
            jax.random.key(0), config=config, shard=0
        )
        self.metrics = fused.metric_shapes(self.shapes, program)
        self._names = fused.names(self.metrics)
        self._evaluate = jax.jit(
            lambda state, count, key: evaluate(state, program, count, key),
            static_argnums=1,
        )
        self._starts: dict[int, Carry] = {}
        self._compiling: threading.Thread | None = None
        self._compiled, self._ready = threading.Event(), False
        self._error: Exception | None = None
        self._rounds_per_second = 0.0  # of all runs

    def runs_side_by_side(self) -> bool:
        """Whether by vmap; on a CPU one after the other is faster, and exact."""
        return not self.devices.on_host

    @property
    def _runs_at_once(self) -> int:
        """One on each device, or with `splits_envs` one on all."""
        return 1 if self.splits_envs else self.devices.count

    def find(self, run: int) -> tuple[CarryStack, int]:
        """The stack with a run's carry, and its index there."""
        self._fill()
        return self._stacks[run // self._group], run % self._group

    # Start

    def begin(self, key: jax.Array, config: Any) -> Carry:
        """A run before its first step, as in `shapes_of_run`."""
        shards = range(self.devices.count if self.splits_envs else 1)
        first = mpi.rank() * len(shards)
        parts = [self._begin(key, config=config, shard=first + i) for i in shards]
        if not self.splits_envs:
            return parts[0]
        rest = [part._replace(state=()) for part in parts]
        stacked = jax.tree.map(lambda *x: jnp.stack(x), *rest)
        return stacked._replace(state=parts[0].state)

    @property
    def shapes_of_run(self) -> Carry:
        """With `splits_envs`, all but the state is [devices, ...]."""
        if not self.splits_envs:
            return self.shapes
        rest = jax.eval_shape(self._stacks[0].copies, self.shapes._replace(state=()))
        return rest._replace(state=self.shapes.state)

    def start(self, run: int, carry: Carry) -> None:
        """Gives a run's carry, before the first call."""
        self._starts[run] = carry

    def _fill(self) -> None:
        """Stacks the carries that `start` was given, once.

        A run without one is not trained and has a copy of another's. A signal may ask
        for the state before the first call, while the program compiles.
        """
        if not self._starts:
            return
        for i, stack in enumerate(self._stacks):
            runs = range(i * self._group, (i + 1) * self._group)
            starts = {
                j: self._starts.pop(k) for j, k in enumerate(runs) if k in self._starts
            }
            if starts:
                stack.fill(starts)

    # Compile

    def compile(self) -> None:
        """Starts compiling in a thread, once."""
        if self._compiling is None:
            self._compiling = threading.Thread(target=self._compile)
            self._compiling.start()

    def _compile(self) -> None:
        try:
            shape = self._stacks[0].shape
            broadcast = lambda x: jnp.broadcast_to(x, (*shape, *x.shape))  # noqa: E731
            carries = jax.eval_shape(
                lambda carry: jax.tree.map(broadcast, carry), self.shapes
            )
            chosen = jax.ShapeDtypeStruct(shape, bool)
            lowered = self._on_devices().lower(carries, chosen, *_on_device(1, False))
            options = self.devices.compiler_options
            self._call: Callable = lowered.compile(compiler_options=options)
        except Exception as error:
            self._error = error
        self._compiled.set()

    def _on_devices(self) -> Any:
        if self.devices.count > 1:
            return self.devices.pmap(self._advance, (0, 0, None, None))

        def on_one(carries: Any, chosen: Any, *call: Any) -> Any:
            given = jax.tree.map(lambda x: x[0], (carries, chosen))
            return jax.tree.map(lambda x: x[None], self._advance(*given, *call))

        return jax.jit(on_one, donate_argnums=0)

    def ready(self, seconds: float) -> bool:
        """Whether it is compiled, on all ranks; waits up to `seconds` for it."""
        if not self._ready:
            missing = not self._compiled.wait(seconds)
            self._ready = not mpi.allreduce_max(int(missing))[0]
        return self._ready

    # Train

    def _advance(
        self, carries: Carry, chosen: jax.Array, rounds: Any, last: Any
    ) -> tuple[Carry, Any]:
        """The chosen ones of the runs of one device; packed rows of all its runs."""
        pmean = mean_over_devices() if self.splits_envs else mpi.ordered_pmean()
        program = self.program._replace(pmean=pmean)

        def part(carry: Carry) -> tuple[Carry, Any]:
            return fused.part(carry, program, rounds, last)

        if len(chosen) == 1:
            after = part(jax.tree.map(lambda x: x[0], carries))
            after = jax.tree.map(lambda x: x[None], after)
        else:
            after = jax.vmap(part)(carries)
        if self._group == 1:  # else some of a group may have ended
            return after
        return jax.vmap(_choose)(chosen, after[0], carries), after[1]

    def advance(self, runs: Sequence[int], rounds_left: int) -> Call:
        """Calls, of about a second together, for some of the runs.

        All of them have as many rounds left in their epoch.
        """
        if self._error:
            raise self._error
        self._fill()
        trained, rounds = self._next_call(runs, rounds_left)
        last, start = rounds == rounds_left, time.perf_counter()
        rows: dict[int, list[Row]] = {}
        for stack, own in self._grouped(trained):
            indices = [run % self._group for run in own]
            given = (stack.carries, stack.mask(indices), *_on_device(rounds, last))
            stack.carries, packed = self._call(*given)
            packed = jax.device_get(packed)  # waits for the result
            rows |= {run: self._rows(stack, packed, run) for run in own}
        seconds = time.perf_counter() - start
        self._rounds_per_second = rounds * len(trained) / seconds
        return Call(trained, rounds, [rows[run] for run in trained] if last else None)

    def _rows(self, stack: CarryStack, packed: Any, run: int) -> list[Row]:
        parts = stack.parts_of(packed, run % self._group)
        return [summary.unpack(self._names, part) for part in parts]

    def _grouped(self, runs: Sequence[int]) -> list[tuple[CarryStack, list[int]]]:
        """The stacks of the runs, each with its runs."""
        groups = itertools.groupby(sorted(runs), lambda run: run // self._group)
        return [(self._stacks[i], list(own)) for i, own in groups]

    def _next_call(self, runs: Sequence[int], left: int) -> tuple[list[int], int]:
        """Which runs are trained, and how many rounds each; the same on all ranks."""
        fitting = mpi.bcast_int(int(SECONDS * self._rounds_per_second))
        count = max(fitting // left, self._group)
        chosen = list(runs[:count])
        return chosen, min(max(fitting // len(chosen), 1), left)

    def evaluate(self, run: int, episodes: int, key: jax.Array) -> Row:
        """Greedy episodes of a run's policy."""
        stack, index = self.find(run)
        return jax.device_get(self._evaluate(stack.state(index), episodes, key))


@functools.lru_cache(maxsize=16)  # the rounds of calls that cut an epoch vary
def _on_device(rounds: int, last: bool) -> tuple[jax.Array, jax.Array]:
    """Most calls of a run have the same ones, whose transfer takes time."""
    return jnp.array(rounds), jnp.array(last)


def _choose(chosen: jax.Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(chosen, x, y), new, old)
