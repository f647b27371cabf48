"""What is made before a run starts: environments, buffer, learner, random numbers."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxrl import checks, envs
from jaxrl.errors import UserError
from jaxrl.logging.wandb import Wandb
from jaxrl.parallel import mpi
from jaxrl.parallel.devices import Devices
from jaxrl.runs.spec import Run
from jaxrl.training.acting import Actor
from jaxrl.training.buffers import HostReplay, Rollout
from jaxrl.training.learner import Learner, scan_updates
from jaxrl.training.progress import Progress
from jaxrl.training.share import Share
from jaxrl.training.user_code import NONE, UserCode
from jaxrl.types import EnvSpec, OnPolicy

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

    def close(self) -> None:
        self.envs.close()
        if self.test_envs is not None:
            self.test_envs.close()


def prepare(run: Run, user: UserCode = NONE) -> Setup:
    """Makes the parts of a run; refuses, and writes nothing, if it cannot be run."""
    try:
        return _prepare(run, user)
    except ValueError as error:
        raise UserError(str(error)) from None
    except MemoryError as error:
        raise UserError(f"there is not enough memory: {error}") from None


def _prepare(run: Run, user: UserCode) -> Setup:
    data = run.data
    share = Share(data, mpi.rank(), mpi.size())
    act_stream, batch_stream, seeds = _random_streams(run.seed, share.rank)
    env_seed, test_seed, init_seed = map(int, seeds.generate_state(3))
    devices = Devices(run.devices, *share.for_devices)
    run = _with_counts(run, devices.count)
    if run.wandb and share.rank == 0:
        Wandb.check_available()
    train_envs = _make_envs(run, data.num_envs, env_seed)
    test_episodes = share.split(data.num_test_episodes)
    test_envs = _make_envs(run, 1, test_seed) if test_episodes else None
    init_state = _initializer(run, train_envs.spec, init_seed)
    state_shapes = jax.eval_shape(init_state)
    buffer, learner = _make_learner(run, share, train_envs.spec, state_shapes, devices)
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


def _make_envs(run: Run, count: int, seed: int) -> Any:
    return envs.make(run.env, count, seed, run.data.max_ep_len, run.env_kwargs)


def _initializer(run: Run, spec: EnvSpec, seed: int) -> Callable[[], Any]:
    config = checks.config(run.config, run.module.Config)
    key = jax.random.key(seed)
    init = jax.jit(run.module.init, static_argnums=1)
    return lambda: init(key, spec, config)


def _make_learner(
    run: Run, share: Share, spec: EnvSpec, state: Any, devices: Devices
) -> tuple[Buffer, Learner]:
    if isinstance(run.data, OnPolicy):
        rollout = Rollout(share.rollout_steps, run.data.num_envs, spec)
        learner = Learner(run.module.update, state, [rollout.data], 1, devices)
        return rollout, learner
    replay = HostReplay(share.replay_size, spec)
    batch = (share.batch_size, replay.rows.shape[1])
    rows = [jax.ShapeDtypeStruct((n, *batch), np.float32) for n in share.round_sizes]
    learn = scan_updates(run.module, spec.obs_size)
    return replay, Learner(learn, state, rows, 1, devices)


def _random_streams(seed: int, rank: int) -> list[np.random.SeedSequence]:
    """Three for each rank, none shared."""
    # A sequence's children differ by their keys; rank 0 has the first three.
    root = np.random.SeedSequence(seed, spawn_key=(2 + rank,) if rank else ())
    return root.spawn(3)


def _with_counts(run: Run, devices: int) -> Run:
    """The run with the numbers of processes and devices that there are."""
    ranks = mpi.size()
    if run.num_procs not in (0, 1, ranks):
        there = "is one process" if ranks == 1 else f"are {ranks} processes"
        raise ValueError(
            f"num_procs is {run.num_procs}, but there {there}; start it under mpirun "
            f"-n {run.num_procs}"
        )
    return dataclasses.replace(run, num_procs=ranks, devices=devices)
