"""What is made before a run in a JAX environment starts, and its state between calls.

Environment, buffer and updates are one compiled program; see `jax_engine`.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrl import checks
from jaxrl.envs.jax import JaxEnv
from jaxrl.logging.columns import columns
from jaxrl.logging.stats import Stats
from jaxrl.logging.wandb import Wandb
from jaxrl.maths import user_networks
from jaxrl.parallel import mpi
from jaxrl.parallel.devices import Devices
from jaxrl.runs import arrays
from jaxrl.runs.spec import Run
from jaxrl.training import fused, snapshot
from jaxrl.training.buffers import pack, unpack
from jaxrl.training.fused import Carry, Row
from jaxrl.training.jax_engine import Engine
from jaxrl.training.progress import Progress
from jaxrl.training.share import Share, with_counts
from jaxrl.training.user_code import UserCode
from jaxrl.types import EnvSpec, Metrics, OnPolicy, Transition


@dataclasses.dataclass
class JaxSetup:
    """The parts of a run in a JAX environment; several can share an engine."""

    run: Run
    share: Share
    engine: Engine
    key: jax.Array
    index: int = 0
    """Of the run among those of the engine."""
    progress: Progress = dataclasses.field(default_factory=Progress)
    make_state: Callable[[], Any] | None = None
    _start: Carry | None = None

    @property
    def spec(self) -> EnvSpec:
        return self.engine.program.env.spec

    @property
    def state_shapes(self) -> Any:
        return self.engine.shapes.state

    @property
    def columns(self) -> tuple[list[str], set[str]]:
        """Of the log; see `logging.columns`."""
        return columns(self.metrics, 0, self.run.data.num_test_episodes)

    @property
    def metrics(self) -> Metrics:
        """The shapes of those of one update."""
        return self.engine.metrics

    # Start

    def init_state(self) -> Any:
        """Also starts the environments."""
        config = checks.config(self.run.config, self.run.module.Config)
        self._start = self.engine.begin(self.key, config)
        return self.make_state() if self.make_state else self._start.state

    def starting_with(self, make_state: Callable[[], Any], run: Run) -> "JaxSetup":
        """The same, but with another initial state, which `run` records."""
        return dataclasses.replace(self, make_state=make_state, run=run)

    def start(self, state: Any) -> None:
        assert self._start is not None
        self.engine.start(self.index, self._start._replace(state=state))
        self._start = None

    def compile(self) -> None:
        self.engine.compile()

    def replicate(self, state: Any) -> Any:
        """The engine copies it to its devices."""
        return state

    # Train

    @property
    def round_steps(self) -> int:
        """Environment steps of a round, of all shards."""
        program, data = self.engine.program, self.engine.program.data
        steps = data.num_envs if isinstance(data, OnPolicy) else data.update_every
        return steps * program.shards

    @property
    def rounds_left(self) -> int:
        """In this epoch."""
        done, per_epoch = self.progress.env_steps, self.run.data.steps_per_epoch
        end = min((done // per_epoch + 1) * per_epoch, self.run.total_steps)
        return -(-(end - done) // self.round_steps)

    def evaluate(self) -> dict[str, Stats]:
        """Greedy episodes, which differ from epoch to epoch."""
        count = self.share.split(self.run.data.num_test_episodes)
        if not count:
            return {}
        key = jax.random.fold_in(jax.random.fold_in(self.key, 1), self.progress.epoch)
        if self.share.ranks > 1:
            key = jax.random.fold_in(key, self.share.rank)
        return stats(self.engine.evaluate(self.index, count, key))

    def check_finite(self) -> None:
        """Raises with the name of what is not."""
        stack, index = self.engine.find(self.index)
        if stack.is_finite(index):
            return
        step = self.progress.env_steps
        state = arrays.flatten(stack.state(index))
        rows = stack.rest(index).buffer.rows._asdict()
        data = {f"the {name}": np.asarray(x) for name, x in rows.items()}
        # What is wrong first: the environment's numbers, or else the policy's.
        by_policy = not np.isfinite(data["the action"]).all()
        snapshot.check_finite(state | data if by_policy else data | state, step)
        raise FloatingPointError(
            f"a reward or observation is not finite at step {step}"
        )

    @property
    def state(self) -> Any:
        """The algorithm's, after the last call."""
        stack, index = self.engine.find(self.index)
        return stack.state(index)

    # Save

    def saved(self) -> dict[str, Any]:
        """The carry, except the algorithm's state and the rows of a replay buffer."""
        stack, index = self.engine.find(self.index)
        rest = stack.rest(index, rows=not self.replay_capacity)
        return {"carry": arrays.flatten(rest)}

    def restore(
        self, saved: Mapping[str, Any], rows: np.ndarray | None, first: int
    ) -> list[str]:
        """Continues from what was saved; the state follows by `start`."""
        shapes = self.engine.shapes_of_run._replace(state=())
        if self.replay_capacity:
            shapes = shapes._replace(buffer=shapes.buffer._replace(rows=()))
        rest = arrays.unflatten(shapes, saved["carry"])
        if self.replay_capacity:
            filled = self._replay_rows(rows, first)
            rest = rest._replace(buffer=rest.buffer._replace(rows=filled))
        self._start = rest
        return []

    @property
    def replay_capacity(self) -> int:
        """Of a shard."""
        rows = self.engine.shapes.buffer.rows
        return 0 if isinstance(self.run.data, OnPolicy) else len(rows.reward)

    def take_rows(self) -> tuple[np.ndarray | None, int]:
        """Replay rows that no checkpoint holds yet, and the number of their first.

        Those of several devices are side by side.
        """
        if not self.replay_capacity:
            return None, 0
        inserted = self.progress.env_steps // self.engine.program.shards
        first = max(self.progress.saved_rows, inserted - self.replay_capacity)
        places = np.arange(first, inserted) % self.replay_capacity
        stack, index = self.engine.find(self.index)
        rows = stack.rest(index).buffer.rows
        if not self.engine.splits_envs:
            rows = jax.tree.map(lambda x: np.asarray(x)[None], rows)
        shards = range(len(rows.reward))
        parts = [pack(jax.tree.map(lambda x, i=i: x[i][places], rows)) for i in shards]
        self.progress.saved_rows = inserted
        return np.concatenate(parts, axis=1), first

    def _replay_rows(self, rows: Any, first: int) -> Transition:
        shapes = self.engine.shapes_of_run.buffer.rows
        filled = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
        if rows is None:
            return filled
        places = np.arange(first, first + len(rows)) % self.replay_capacity
        shards = self.engine.devices.count if self.engine.splits_envs else 1
        parts: Any = np.split(rows, shards, axis=1)
        for i, part in enumerate(parts):
            saved: Any = unpack(part, self.spec.obs_size)
            for field, values in zip(filled, saved, strict=True):
                (field[i] if self.engine.splits_envs else field)[places] = values
        self.progress.saved_rows = first + len(rows)
        return jax.tree.map(jax.numpy.asarray, filled)

    def close(self) -> None:
        """Nothing is open."""


def stats(row: Row) -> dict[str, Stats]:
    """A row as the logger takes it."""
    return {name: _stats(x) for name, x in row.items()}


def _stats(summary: Any) -> Stats:
    n, *rest = summary
    return Stats(int(n), *map(float, rest)) if n else Stats()


@dataclasses.dataclass
class SharedEngine:
    """The engine of `size` runs, made when the first of them is prepared."""

    size: int = 1
    engine: Engine | None = None
    taken: int = 0
    """Runs that have it."""


def prepare_jax(
    run: Run, env: JaxEnv, user: UserCode, shared: SharedEngine
) -> JaxSetup:
    """Makes the parts of a run; refuses, and writes nothing, if it cannot be run."""
    if run.env_workers:
        raise ValueError(
            "JAX environments run without worker processes; leave out --env_workers"
        )
    if run.wandb and mpi.rank() == 0:
        Wandb.check_available()
    engine = shared.engine or _make_engine(run, env, user, shared.size)
    shared.engine = engine
    setup = JaxSetup(
        run=with_counts(run, engine.devices.count if engine.splits_envs else 1),
        share=Share(run.data, mpi.rank(), mpi.size()),
        engine=engine,
        key=jax.random.key(run.seed),
        index=shared.taken,
    )
    shared.taken += 1
    return setup


def _make_engine(run: Run, env: JaxEnv, user: UserCode, runs: int) -> Engine:
    devices = _devices(run, runs)
    shared = 1 if runs % devices.count == 0 and runs > 1 else devices.count
    if devices.on_host:
        _check_memory(run, env.spec, runs)
    return Engine(
        fused.make_program(run.module, env, run.data, mpi.size(), shared),
        user_networks.build(run.networks, user.networks, env.spec),
        checks.config(run.config, run.module.Config),
        runs,
        devices,
    )


def _devices(run: Run, runs: int) -> Devices:
    """They share the runs if these can be split, or else a run's environments.

    By default runs are split over GPUs and the like. CPU devices are used if asked
    for, because their program rounds differently, and environments are split if asked
    for, because a run has other random numbers then.
    """
    count = run.devices or int(jax.default_backend() == "cpu")
    if runs > 1 and (not count or runs % count == 0):
        return Devices(count, runs, "the number of runs")
    return Devices(count or 1, run.data.num_envs, "num_envs")


def _check_memory(run: Run, spec: EnvSpec, runs: int) -> None:
    """Refuses buffers that do not fit, before they are allocated."""
    off_policy = not isinstance(run.data, OnPolicy)
    what = "replay_size" if off_policy else "steps_per_epoch"
    rows = getattr(run.data, what)
    row_bytes = 4 * (2 * spec.obs_size + spec.action.size + 1) + 2
    needed, there = runs * rows * row_bytes, _free_memory()
    if needed > there:
        several = f"{runs} runs x " if runs > 1 else ""
        fewer = " or train fewer runs at once" if runs > 1 else ""
        raise ValueError(
            f"{several}{what} {rows:,} x {row_bytes} bytes a transition are "
            f"{needed / 1e9:.1f} GB, but {there / 1e9:.1f} GB are free; lower "
            f"{what}{fewer}"
        )


def _free_memory() -> float:
    """Bytes of the host that can be allocated; inf where nobody knows."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * float(line.split()[1])
    return math.inf
