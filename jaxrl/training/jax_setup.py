"""What is made before a run in a JAX environment starts, and its state between calls.

Environment, buffer and updates are one compiled program (`fused.part`) with one carry.
"""

import contextlib
import dataclasses
import functools
import math
import threading
import time
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
from jaxrl.parallel.devices import Devices
from jaxrl.runs import arrays
from jaxrl.runs.spec import Run
from jaxrl.training import fused, snapshot
from jaxrl.training.buffers import pack, unpack
from jaxrl.training.fused import Carry
from jaxrl.training.jax_episodes import evaluate
from jaxrl.training.progress import Progress
from jaxrl.training.share import Share
from jaxrl.training.user_code import UserCode
from jaxrl.types import EnvSpec, Metrics, OnPolicy, Transition

SECONDS = 1.0  # of one call, between two looks for signals


@dataclasses.dataclass
class JaxSetup:
    """The parts of a run in a JAX environment."""

    run: Run
    share: Share
    devices: Devices
    program: fused.Program
    key: jax.Array
    networks: Any = None
    progress: Progress = dataclasses.field(default_factory=Progress)
    carry: Carry | None = None
    rounds_per_call: int = 1
    make_state: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        config = checks.config(self.run.config, self.run.module.Config)
        begin = functools.partial(
            fused.begin,
            program=self.program,
            config=config,
            networks=self.networks,
        )
        self._begin = jax.jit(begin)
        self.shapes: Carry = jax.eval_shape(begin, self.key)
        self._compiled = threading.Event()
        self._error: Exception | None = None
        tests = self.run.data.num_test_episodes
        self._evaluate = jax.jit(
            lambda state, key: evaluate(state, self.program, tests, key)
        )

    @property
    def spec(self) -> EnvSpec:
        return self.program.env.spec

    @property
    def state_shapes(self) -> Any:
        return self.shapes.state

    @property
    def columns(self) -> tuple[list[str], set[str]]:
        """Of the log; see `logging.columns`."""
        return columns(self.metrics, 0, self.run.data.num_test_episodes)

    @property
    def metrics(self) -> Metrics:
        """The shapes of those of one update."""
        return fused.metric_shapes(self.shapes, self.program)

    # Start and compile

    def init_state(self) -> Any:
        """Also starts the environments."""
        self.carry = self._begin(self.key)
        return self.make_state() if self.make_state else self.carry.state

    def starting_with(self, make_state: Callable[[], Any], run: Run) -> "JaxSetup":
        """The same, but with another initial state, which `run` records."""
        return dataclasses.replace(self, make_state=make_state, run=run)

    def start(self, state: Any) -> None:
        assert self.carry is not None
        self.carry = self.carry._replace(state=state)

    def compile(self) -> None:
        """Starts compiling in a thread."""
        threading.Thread(target=self._compile).start()

    def _compile(self) -> None:
        try:
            part = lambda *given: fused.part(given[0], self.program, *given[1:])  # noqa: E731
            lowered = jax.jit(part, donate_argnums=0).lower(self.shapes, 1, False)
            self._part: Callable = lowered.compile()
        except Exception as error:
            self._error = error
        self._compiled.set()

    def ready(self, seconds: float) -> bool:
        """Whether it is compiled; waits up to `seconds` for it."""
        return self._compiled.wait(seconds)

    # Train

    @property
    def round_steps(self) -> int:
        """Environment steps of a round."""
        data: Any = self.run.data
        return data.num_envs if isinstance(data, OnPolicy) else data.update_every

    def advance(self) -> dict[str, Stats] | None:
        """One call, of about a second; the epoch's row if it ends the epoch."""
        if self._error:
            raise self._error
        rounds, last = self._next_rounds()
        start = time.perf_counter()
        self.carry, row = self._part(self.carry, rounds, last)
        row = jax.device_get(row)  # waits for the result
        seconds = time.perf_counter() - start
        self.rounds_per_call = max(int(SECONDS * rounds / seconds), 1)
        self.progress.env_steps += rounds * self.round_steps
        return {name: _stats(x) for name, x in row.items()} if last else None

    def _next_rounds(self) -> tuple[int, bool]:
        """How many rounds are next, and whether they end the epoch."""
        done, per_epoch = self.progress.env_steps, self.run.data.steps_per_epoch
        end = min((done // per_epoch + 1) * per_epoch, self.run.total_steps)
        left = -(-(end - done) // self.round_steps)
        rounds = min(left, self.rounds_per_call)
        return rounds, rounds == left

    def evaluate(self) -> dict[str, Stats]:
        """Greedy episodes, which differ from epoch to epoch."""
        if not self.run.data.num_test_episodes:
            return {}
        assert self.carry is not None
        key = jax.random.fold_in(jax.random.fold_in(self.key, 1), self.progress.epoch)
        row = jax.device_get(self._evaluate(self.carry.state, key))
        return {name: _stats(x) for name, x in row.items()}

    def check_finite(self) -> None:
        """Raises with the name of what is not."""
        assert self.carry is not None
        if self.carry.finite:
            return
        step = self.progress.env_steps
        leaves = arrays.flatten(self.carry.state)
        rows = self.carry.buffer.rows
        leaves |= {f"the {name}": np.asarray(x) for name, x in rows._asdict().items()}
        snapshot.check_finite(leaves, step)
        raise FloatingPointError(
            f"a reward or observation is not finite at step {step}"
        )

    # Save

    def saved(self) -> dict[str, Any]:
        """The carry, except the algorithm's state and the rows of a replay buffer."""
        return {"carry": arrays.flatten(self._rest(self.carry))}

    def _rest(self, carry: Any) -> Carry:
        replay = not isinstance(self.run.data, OnPolicy)
        buffer = carry.buffer._replace(rows=()) if replay else carry.buffer
        return carry._replace(state=(), buffer=buffer)

    def restore(
        self, saved: Mapping[str, Any], rows: np.ndarray | None, first: int
    ) -> list[str]:
        """Continues from what was saved; the state follows by `start`."""
        rest = arrays.unflatten(self._rest(self.shapes), saved["carry"])
        buffer = rest.buffer
        if not isinstance(self.run.data, OnPolicy):
            buffer = buffer._replace(rows=self._replay_rows(rows, first))
        self.carry = rest._replace(buffer=buffer)
        return []

    @property
    def replay_capacity(self) -> int:
        rows = self.shapes.buffer.rows
        return 0 if isinstance(self.run.data, OnPolicy) else len(rows.reward)

    def take_rows(self) -> tuple[np.ndarray | None, int]:
        """Replay rows that no checkpoint holds yet, and the number of their first."""
        if not self.replay_capacity:
            return None, 0
        assert self.carry is not None
        inserted = self.progress.env_steps
        first = max(self.progress.saved_rows, inserted - self.replay_capacity)
        places = np.arange(first, inserted) % self.replay_capacity
        rows = jax.tree.map(lambda x: np.asarray(x)[places], self.carry.buffer.rows)
        self.progress.saved_rows = inserted
        return pack(rows), first

    def _replay_rows(self, rows: Any, first: int) -> Transition:
        empty = jax.tree.map(
            lambda x: np.zeros(x.shape, x.dtype), self.shapes.buffer.rows
        )
        if rows is None:
            return empty
        places = np.arange(first, first + len(rows)) % self.replay_capacity
        saved: Any = unpack(rows, self.spec.obs_size)
        for field, values in zip(empty, saved, strict=True):
            field[places] = values
        self.progress.saved_rows = first + len(rows)
        return jax.tree.map(jax.numpy.asarray, empty)

    def close(self) -> None:
        """Nothing is open."""


def _stats(summary: Any) -> Stats:
    n, *rest = summary
    return Stats(int(n), *map(float, rest)) if n else Stats()


def prepare_jax(run: Run, env: JaxEnv, user: UserCode) -> JaxSetup:
    """Makes the parts of a run; refuses, and writes nothing, if it cannot be run."""
    for name in ("devices", "num_procs"):
        if getattr(run, name) not in (0, 1):
            raise ValueError(
                f"{name} is {getattr(run, name)}, but a JAX environment is trained by "
                "one process on one device"
            )
    if run.env_workers:
        raise ValueError("a JAX environment has no workers; leave out --env_workers")
    if run.wandb:
        Wandb.check_available()
    devices = Devices(1, 1, "the run")
    if devices.on_host:
        _check_memory(run, env.spec)
    return JaxSetup(
        run=dataclasses.replace(run, num_procs=1, devices=1),
        share=Share(run.data),
        devices=devices,
        program=fused.make_program(run.module, env, run.data),
        key=jax.random.key(run.seed),
        networks=user_networks.build(run.networks, user.networks, env.spec),
    )


def _check_memory(run: Run, spec: EnvSpec) -> None:
    """Refuses a buffer that does not fit, before it is allocated."""
    off_policy = not isinstance(run.data, OnPolicy)
    what = "replay_size" if off_policy else "steps_per_epoch"
    rows = getattr(run.data, what)
    row_bytes = 4 * (2 * spec.obs_size + spec.action.size + 1) + 2
    needed, there = rows * row_bytes, _free_memory()
    if needed > there:
        raise ValueError(
            f"{what} is {rows:,}, and as many transitions of {row_bytes} bytes take "
            f"{needed / 1e9:.1f} GB, but {there / 1e9:.1f} GB are free; lower {what}"
        )


def _free_memory() -> float:
    """Bytes of the host that can be allocated; inf where nobody knows."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * float(line.split()[1])
    return math.inf
