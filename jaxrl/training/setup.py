"""What is made before a run starts: environments, buffer, learner, random numbers."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxrl import checks, envs
from jaxrl.algos import label
from jaxrl.envs import jax_finding
from jaxrl.errors import UserError
from jaxrl.logging.columns import RESERVED, columns
from jaxrl.logging.wandb import Wandb
from jaxrl.maths import user_networks
from jaxrl.parallel import mpi
from jaxrl.parallel.devices import Devices, set_up
from jaxrl.runs.spec import Run
from jaxrl.training import returned
from jaxrl.training.acting import Actor, acts_as_ours
from jaxrl.training.buffers import HostReplay, Rollout
from jaxrl.training.jax_setup import JaxSetup, SharedEngine, prepare_jax
from jaxrl.training.learner import Learner, one_update, scan_updates
from jaxrl.training.progress import Progress
from jaxrl.training.share import Share, with_counts
from jaxrl.training.user_code import NONE, UserCode
from jaxrl.types import EnvSpec, Metrics, OnPolicy

MOST_ENVS = 65_536  # gymnasium's of one process; each takes kilobytes and milliseconds

Buffer = Rollout | HostReplay


@dataclasses.dataclass(frozen=True)
class Setup:
    """The parts of a run, this rank's share of them."""

    run: Run
    share: Share
    devices: Devices
    envs: Any
    test_envs: Any  # one environment, None without test episodes
    test_episodes: int
    buffer: Buffer
    learner: Learner
    actor: Actor
    act_rng: np.random.Generator
    batch_rng: np.random.Generator
    init_state: Callable[[], Any]
    state_shapes: Any
    progress: Progress = dataclasses.field(default_factory=Progress)

    @property
    def spec(self) -> EnvSpec:
        return self.envs.spec

    @property
    def columns(self) -> tuple[list[str], set[str]]:
        """Of the log; see `logging.columns`."""
        # A scan of off-policy updates stacks their metrics.
        dimensions = 0 if isinstance(self.run.data, OnPolicy) else 1
        tests = self.run.data.num_test_episodes
        return columns(self.learner.metrics, dimensions, tests)

    def starting_with(self, make_state: Callable[[], Any], run: Run) -> "Setup":
        """The same, but with another initial state, which `run` records."""
        return dataclasses.replace(self, init_state=make_state, run=run)

    def start(self, state: Any) -> None:
        self.actor.set_state(state)

    def replicate(self, state: Any) -> Any:
        """A copy on each device."""
        return self.devices.replicate(state)

    def compile(self) -> None:
        """Starts compiling in a thread, while the first steps are taken."""
        self.learner.compile()

    def saved(self) -> dict[str, Any]:
        """What only this rank has, except the rows of a replay buffer."""
        buffer = self.buffer
        return {
            "act_rng": self.act_rng.bit_generator.state,
            "batch_rng": self.batch_rng.bit_generator.state,
            "rollout": buffer.state() if isinstance(buffer, Rollout) else None,
            "envs": self.envs.saved(),
            "test_envs": self.test_envs.saved() if self.test_envs else None,
        }

    def restore(
        self, saved: Mapping[str, Any], rows: np.ndarray | None, first: int
    ) -> list[str]:
        """Continues from what was saved; notes say what could not be restored."""
        self.act_rng.bit_generator.state = saved["act_rng"]
        self.batch_rng.bit_generator.state = saved["batch_rng"]
        if isinstance(self.buffer, Rollout):
            self.buffer.restore(saved["rollout"])
        elif rows is not None:
            self.buffer.restore(rows, first)
            self.progress.saved_rows = self.buffer.inserted
        if self.test_envs:
            self.test_envs.restore(saved["test_envs"])
        lost = ", ".join(map(str, self.envs.restore(saved["envs"])))
        if not lost:
            return []
        return [
            f"the episode of environment {lost} could not be replayed exactly; it was "
            "reset instead"
        ]

    @property
    def replay_capacity(self) -> int:
        return len(self.buffer.rows) if isinstance(self.buffer, HostReplay) else 0

    def take_rows(self) -> tuple[np.ndarray | None, int]:
        """Replay rows that no checkpoint holds yet, and the number of their first."""
        if not isinstance(self.buffer, HostReplay):
            return None, 0
        rows, first = self.buffer.since(self.progress.saved_rows)
        self.progress.saved_rows = self.buffer.inserted
        return rows, first

    def close(self) -> None:
        self.envs.close()
        if self.test_envs is not None:
            self.test_envs.close()


AnySetup = Setup | JaxSetup


def prepare(
    run: Run, user: UserCode = NONE, shared: SharedEngine | None = None
) -> AnySetup:
    """Makes the parts of a run; refuses, and writes nothing, if it cannot be run.

    Runs that are trained together in one program have a `shared` engine.
    """
    set_up(run.devices)  # before a JAX environment starts JAX
    try:
        given = run.env if user.env is None else user.env
        jax_env = jax_finding.find(given, run.env_kwargs)
        if jax_env is None and shared:
            raise ValueError(
                f"{given} is not a JAX environment; several runs in one program need "
                "one (jaxrl grid trains in others, with a process for each run)"
            )
        if jax_env is None:
            return _prepare(run, user)
        setup = prepare_jax(run, jax_env, user, shared or SharedEngine())
        _check_metrics(setup.metrics, run)
        return setup
    except ValueError as error:
        raise UserError(str(error)) from None
    except OverflowError as error:
        raise UserError(f"a setting is too large: {str(error)[:200]}") from None
    except MemoryError as error:
        raise UserError(f"there is not enough memory: {error}") from None


def _prepare(run: Run, user: UserCode) -> Setup:
    data = run.data
    if data.num_envs > MOST_ENVS:  # as a stranger's settings may ask
        raise UserError(
            f"num_envs is {data.num_envs}, but a process makes at most {MOST_ENVS}"
        )
    share = Share(data, mpi.rank(), mpi.size())
    act_stream, batch_stream, seeds = _random_streams(run.seed, share.rank)
    env_seed, test_seed, init_seed = map(int, seeds.generate_state(3))
    devices = Devices(run.devices, *share.for_devices)
    run = with_counts(run, devices.count)
    if run.wandb and share.rank == 0:
        Wandb.check_available()
    test_episodes = share.split(data.num_test_episodes)
    train_envs, test_envs = _make_envs(run, user, env_seed, test_seed, test_episodes)
    spec = train_envs.spec
    try:
        init_state = _initializer(run, user, spec, init_seed)
        state_shapes = returned.state(_shapes(init_state))
        if not acts_as_ours(run.module):
            obs = jax.ShapeDtypeStruct((data.num_envs, spec.obs_size), spec.obs_dtype)
            returned.action(run.module, state_shapes, obs)
        buffer, learner = _make_learner(run, share, spec, state_shapes, devices)
        _check_metrics(learner.metrics, run)
    except BaseException:
        train_envs.close()  # which may have processes
        raise
    return Setup(
        run=run,
        share=share,
        devices=devices,
        envs=train_envs,
        test_envs=test_envs,
        test_episodes=test_episodes,
        buffer=buffer,
        learner=learner,
        actor=Actor(run.module, data.num_envs),
        act_rng=np.random.default_rng(act_stream),
        batch_rng=np.random.default_rng(batch_stream),
        init_state=init_state,
        state_shapes=state_shapes,
    )


def _make_envs(
    run: Run, user: UserCode, seed: int, test_seed: int, tests: int
) -> tuple[Any, Any]:
    """The environments to train in, and one for test episodes or None."""
    env = run.env if user.env is None else user.env
    if tests and envs.is_instance(env):
        raise ValueError(
            "test episodes need a second environment, but env is one "
            "environment; give a callable that makes one, or num_test_episodes=0"
        )
    args = (run.data.max_ep_len, run.env_kwargs)
    train_envs: Any = envs.make(env, run.data.num_envs, seed, *args, run.env_workers)
    if not tests:
        return train_envs, None
    test_envs: Any = envs.make(env, 1, test_seed, *args)
    if user.env is not None:
        envs.check_distinct([train_envs.envs[0], test_envs.envs[0]])
    return train_envs, test_envs


def _initializer(
    run: Run, user: UserCode, spec: EnvSpec, seed: int
) -> functools.partial:
    """Makes the initial state when it is called."""
    config = checks.config(run.config, run.module.Config)
    networks = user_networks.build(run.networks, user.networks, spec)
    key = jax.random.key(seed)
    # It is called once: less optimisation is enough, but none would round differently.
    on_cpu = jax.default_backend() == "cpu"
    quick = {"xla_backend_optimization_level": 1} if on_cpu else None
    init = jax.jit(run.module.init, static_argnums=(1, 3), compiler_options=quick)
    return functools.partial(init, key, spec, config, networks)


def _shapes(initializer: functools.partial) -> Any:
    jitted: Any = initializer.func
    return jitted.eval_shape(*initializer.args)


def _make_learner(
    run: Run, share: Share, spec: EnvSpec, state: Any, devices: Devices
) -> tuple[Buffer, Learner]:
    if isinstance(run.data, OnPolicy):
        rollout = Rollout(share.rollout_steps, run.data.num_envs, spec)
        learner = Learner(one_update(run.module), state, [rollout.data], 1, devices)
        return rollout, learner
    replay = HostReplay(share.replay_size, spec)
    batch = (share.batch_size, replay.rows.shape[1])
    rows = [jax.ShapeDtypeStruct((n, *batch), np.float32) for n in share.round_sizes]
    learn = scan_updates(run.module, spec.obs_size)
    return replay, Learner(learn, state, rows, 1, devices)


def _check_metrics(metrics: Metrics, run: Run) -> None:
    """Refuses a user's metrics that the log could not hold."""
    if taken := sorted(metrics.keys() & RESERVED):
        raise ValueError(
            f"the metric {taken[0]} of {label(run.algo)}.update has the name of a "
            "column that every run has; rename it"
        )


def _random_streams(seed: int, rank: int) -> list[np.random.SeedSequence]:
    """Three for each rank, none shared."""
    # A sequence's children differ by their keys; rank 0 has the first three.
    root = np.random.SeedSequence(seed, spawn_key=(2 + rank,) if rank else ())
    return root.spawn(3)


def state_shapes(run: Run) -> Any:
    """Those of the algorithm's state, without making the other parts of a run."""
    made = envs.make(run.env, 1, 0, run.data.max_ep_len, run.env_kwargs)
    try:
        return _shapes(_initializer(run, NONE, made.spec, 0))
    finally:
        made.close()
