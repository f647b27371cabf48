"""A run under way in environments that live on the host.

On-policy: a rollout, then one jitted call. Off-policy: `update_every` steps, then as
many updates in one scan over batches sampled at once. Between any two steps the run
can be left, and taken up again as if it had not been. Several ranks take every step
together.
"""

import dataclasses
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl import checks, envs
from jaxrl.envs.gym import Stepped
from jaxrl.errors import UserError
from jaxrl.logging.columns import columns
from jaxrl.logging.logger import Logger, Row, rows_of
from jaxrl.logging.wandb import Wandb
from jaxrl.parallel import mpi
from jaxrl.parallel.devices import Devices
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import checkpoint
from jaxrl.runs.checkpoint import Saved
from jaxrl.runs.spec import Run
from jaxrl.training.acting import Actor
from jaxrl.training.buffers import HostReplay, Rollout
from jaxrl.training.learner import Learner, scan_updates
from jaxrl.training.records import Records
from jaxrl.training.share import Share
from jaxrl.types import OffPolicy, OnPolicy

OnEpoch = Callable[[Any, int], dict[str, Any] | None]


class Result(NamedTuple):
    """What a run comes to."""

    state: Any
    history: list[Row]
    directory: Path
    stopped_by: signal.Signals | None = None
    """The signal that ended it before its last step; the rest can be resumed."""


def is_complete(run: Run, saved: Saved) -> bool:
    at_end = saved.content["taken"] >= run.total_steps
    return at_end and not saved.content.get("owes_update")


class Trainer:
    """A run under way."""

    def __init__(self, run: Run, path: Path, on_epoch: OnEpoch | None) -> None:
        self.path, self.on_epoch = path, on_epoch
        self.algo, self.data = run.module, run.data
        self.share = Share(run.data, mpi.rank(), mpi.size())
        streams = _streams(run.seed, self.share.rank)
        self.act_rng, self.batch_rng = map(np.random.default_rng, streams[:2])
        env_seed, test_seed, init_seed = map(int, streams[2].generate_state(3))
        try:
            self.devices = Devices(run.devices, *self.share.for_devices)
            self.run = run = _resolved(run, self.devices.count)
            if run.wandb and self.share.rank == 0:
                Wandb.refuse_absence()
            self.envs = self._environments(self.data.num_envs, env_seed)
            self.tests = self.share.split(self.data.num_test_episodes)
            self.test_envs = self._environments(1, test_seed) if self.tests else None
            config = checks.config(run.config, self.algo.Config)
            key = jax.random.key(init_seed)
            init = jax.jit(self.algo.init, static_argnums=1)
            self._init = lambda: init(key, self.envs.spec, config)
            self.state = jax.eval_shape(self._init)  # its shapes; `start` fills them
            self.learner = self._learner()
        except ValueError as error:
            raise UserError(str(error)) from None
        except MemoryError as error:
            raise UserError(f"there is not enough memory: {error}") from None
        self.actor = Actor(self.algo, self.data.num_envs)
        self.taken, self.epoch, self.best = 0, 0, -np.inf
        self.owes_update = False
        self._epoch_taken, self._kept_rows, self._earlier = 0, 0, 0.0
        self._spent = dict.fromkeys(("EnvSeconds", "ActSeconds", "UpdateSeconds"), 0.0)

    def _environments(self, count: int, seed: int) -> Any:
        run = self.run
        return envs.make(run.env, count, seed, self.data.max_ep_len, run.env_kwargs)

    def _learner(self) -> Learner:
        spec, data = self.envs.spec, self.data
        if isinstance(data, OnPolicy):
            self.experience: Rollout | HostReplay
            self.experience = Rollout(self.share.rollout_steps, data.num_envs, spec)
            example = (self.state, self.experience.data)
            return Learner(self.algo.update, *example, 1, self.devices)
        self.experience = HostReplay(self.share.replay_size, spec)
        width = self.experience.rows.shape[1]
        shape = (self.share.updates_per_round, self.share.batch_size, width)
        batch = jax.ShapeDtypeStruct(shape, np.float32)
        learn = scan_updates(self.algo, spec.obs_size)
        return Learner(learn, self.state, batch, 1, self.devices)

    # From beginning to end

    def start(
        self, saved: Saved | None, screen: bool, notes: list[str] | None = None
    ) -> Result:
        """From the first step or a checkpoint to the end or a signal."""
        notes = list(notes or [])
        if saved is None or not is_complete(self.run, saved):
            self.learner.compile()  # meanwhile the state is made and the envs step
        if saved:
            notes += self._restored(saved)
        else:
            self.state = self._init()
        self.state = self._together(self.state)
        self.actor.follow(self.state)
        self._open_logger(saved)
        opening = (self.run, self.path, self.taken, self.logger)
        self.records = Records(*opening, saved, screen)
        self.screen = self.records.screen
        if self.screen:
            self.screen.notes(notes)
        self._start = self._epoch_start = time.perf_counter()
        agree = mpi.allreduce_max if self.share.ranks > 1 else None
        try:
            with StopRequest(agree) as self.stop, mpi.watchdog():
                self._loop()
        finally:
            self._close()
        return Result(self.state, self.logger.history, self.path, self.stop.signal)

    def _together(self, state: Any) -> Any:
        """Rank 0's, on each device of each rank."""
        if self.share.ranks > 1:
            leaves = mpi.broadcast(checkpoint.flatten(state))
            state = checkpoint.unflatten(state, leaves)
        return self.devices.replicate(state)

    def _open_logger(self, saved: Saved | None) -> None:
        rank = 0 if isinstance(self.data, OnPolicy) else 1  # a scan stacks metrics
        names = columns(self.learner.metrics, rank, self.data.num_test_episodes)
        history = rows_of(saved.progress if saved else "")
        self.logger = Logger(*names, history, mpi.reduce_stats)
        if saved:
            self.logger.restore(self._samples)

    def _loop(self) -> None:
        total = self.run.total_steps
        if self.epoch and self.taken == self._epoch_taken:
            with mpi.paused():
                self._film()  # if a signal came before it was done
        while self.taken < total or self.owes_update:
            if self.stop.reached():
                return self._save_checkpoint()
            mpi.report_progress()
            if not self.owes_update:
                self._step()
                self.owes_update = self._update_is_due()
            if self.owes_update:
                if not self._wait_for_the_compiler():
                    continue
                self._update()
                self.owes_update = False
            if self._epoch_is_over():
                self._end_epoch()
        return self.records.wait_for_the_disk()

    def _update_is_due(self) -> bool:
        data = self.data
        if isinstance(data, OnPolicy):
            return self.taken % data.steps_per_epoch == 0
        due = self.taken % self.share.updates_per_round == 0
        return due and self.taken >= data.update_after

    def _epoch_is_over(self) -> bool:
        per_epoch = self.data.steps_per_epoch
        over = self.taken // per_epoch > self._epoch_taken // per_epoch
        return over or self.taken >= self.run.total_steps

    def _wait_for_the_compiler(self) -> bool:
        """Whether it is done, in all ranks; not, if a signal came first."""
        while True:
            (waiting,) = mpi.allreduce_max(int(not self.learner.ready(0.1)))
            if not waiting:
                return True
            if self.stop.agreed():
                return False

    def _close(self) -> None:
        self.records.close()
        self.logger.close()
        self.envs.close()
        if self.test_envs is not None:
            self.test_envs.close()

    # A step and an update

    def _step(self) -> None:
        """In each environment; the first `start_steps` actions are random."""
        start = time.perf_counter()
        obs = self.envs.obs.copy()  # which the step will replace
        random = self.share.random_actions(self.taken)
        if random < len(obs):
            action = self.actor(obs, self.act_rng)
        if random > 0:
            shape = (len(obs), self.envs.spec.action.size)
            chance = self.act_rng.uniform(-1, 1, shape).astype(np.float32)
            if random < len(obs):
                chance[random:] = action[random:]
            action = chance
        acted = time.perf_counter()
        self.experience.insert(obs, action, self._stepped(action))
        self._spent["ActSeconds"] += acted - start
        self._spent["EnvSeconds"] += time.perf_counter() - acted
        self.taken += self.share.total_envs
        if self.screen:
            self.screen.progress(self.taken)

    def _stepped(self, action: np.ndarray) -> Stepped:
        try:
            return self.envs.step(action)
        except FloatingPointError as error:
            raise FloatingPointError(f"{error} at step {self.taken}") from None

    def _update(self) -> None:
        start = time.perf_counter()
        learned = self.learner(self.state, self._batch())
        self.state = learned.state
        if learned.fingerprints is not None:
            mpi.refuse_drift(learned.fingerprints, f"at step {self.taken}")
        self._refuse_nonsense(learned.metrics)
        if not learned.finite:
            self._refuse_nonsense(checkpoint.flatten(self.state))
        self.logger.store(**learned.metrics)
        self.actor.follow(self.devices.single(self.state))
        self._spent["UpdateSeconds"] += time.perf_counter() - start

    def _refuse_nonsense(self, values: dict[str, np.ndarray]) -> None:
        for name, value in values.items():
            # A setting may be infinite, where it is a limit.
            if not name.startswith(".config") and not np.isfinite(value).all():
                raise FloatingPointError(f"{name} is not finite at step {self.taken}")

    def _batch(self) -> Any:
        if isinstance(self.experience, Rollout):
            return self.experience.take()
        assert isinstance(self.data, OffPolicy)
        shape = (self.share.updates_per_round, self.share.batch_size)
        return self.experience.sample(self.batch_rng, *shape)

    # The end of an epoch

    def _end_epoch(self) -> None:
        self.epoch += 1
        log = self.logger
        episodes = self.envs.take_finished()
        log.store(EpRet=[e.returned for e in episodes])
        log.store(EpLen=[e.length for e in episodes])
        self._test()
        log.store(Epoch=self.epoch, TotalEnvInteracts=self.taken, **self._clocks())
        if "LearningRate" not in log.stored:
            log.store(LearningRate=_learning_rate(self.run.config))
        if self.on_epoch:
            with mpi.paused():
                log.store_own(self.on_epoch(self.state, self.taken) or {})
        with mpi.paused():
            self._save_model(log.dump(self.taken))
            self._film()
        self._epoch_start, self._epoch_taken = time.perf_counter(), self.taken
        if self._checkpoint_is_due():
            self._save_checkpoint()

    def _clocks(self) -> dict[str, float]:
        now = time.perf_counter()
        speed = (self.taken - self._epoch_taken) / (now - self._epoch_start)
        seconds = self._earlier + now - self._start
        spent, self._spent = self._spent, dict.fromkeys(self._spent, 0.0)
        return {"Time": seconds, "StepsPerSecond": speed, **spent}

    def _test(self) -> None:
        """Greedy episodes in an environment of their own."""
        if self.test_envs is None:
            return
        while len(self.test_envs.finished) < self.tests:
            mpi.report_progress()
            self.test_envs.step(self.actor(self.test_envs.obs))
        episodes = self.test_envs.take_finished()
        self.logger.store(TestEpRet=[e.returned for e in episodes])
        self.logger.store(TestEpLen=[e.length for e in episodes])

    def _save_model(self, row: Row) -> None:
        """The model: as the last, the best by its episodes, and one to be kept."""
        score = row.get("AverageTestEpRet", row["AverageEpRet"])
        better = score is not None and score > self.best
        last = self.taken >= self.run.total_steps
        kept = self.run.keeps_model(self.epoch)
        if not (better or last or kept) and self.epoch % self.data.save_freq:
            return
        self.best = max(self.best, score if score is not None else -np.inf)
        due = {"last": True, "best": better, str(self.taken): kept}
        names = [name for name, is_due in due.items() if is_due]
        self.records.save_models(names, self.envs.spec, self.state, self.taken)

    def _film(self) -> None:
        if self.run.records_video(self.epoch):
            self.records.film(self.taken, self.stop)

    # Checkpoints

    def _checkpoint_is_due(self) -> bool:
        """At the end, and every so many epochs if it takes little of the time."""
        if self.taken >= self.run.total_steps:
            return True
        every = self.run.checkpoint_every
        if not every or self.epoch % every:
            return False
        seconds = time.perf_counter() - self._start
        return self.records.checkpoint_is_affordable(seconds)

    def _save_checkpoint(self) -> None:
        ring = self.experience if isinstance(self.experience, HostReplay) else None
        rows, first = ring.since(self._kept_rows) if ring else (None, 0)
        if ring and rows is not None:
            self._kept_rows = ring.inserted
            rows = mpi.gather(rows)
        own, *others = checkpoint.gathered(self._own())
        content = self._shared() | own | {"ranks": others}
        capacity = len(ring.rows) if ring else 0
        self.records.save_checkpoint(content, rows, first, capacity)
        if self.stop.signal:
            self.records.wait_for_the_disk()

    def _shared(self) -> dict[str, Any]:
        """What is the same for all ranks."""
        state = checkpoint.flatten(self.state)
        self._refuse_nonsense(state)
        return {
            "taken": self.taken,
            "epoch": self.epoch,
            "epoch_taken": self._epoch_taken,
            "best": self.best,
            "owes_update": self.owes_update,
            "seconds": self._earlier + time.perf_counter() - self._start,
            "state": state,
        }

    def _own(self) -> dict[str, Any]:
        """What each rank has for itself."""
        rollout = self.experience if isinstance(self.experience, Rollout) else None
        return {
            "act_rng": self.act_rng.bit_generator.state,
            "batch_rng": self.batch_rng.bit_generator.state,
            "rollout": rollout.saved() if rollout else None,
            "envs": self.envs.saved(),
            "test_envs": self.test_envs.saved() if self.test_envs else None,
            "logger": self.logger.saved(),
        }

    def _restored(self, saved: Saved) -> list[str]:
        try:
            return self._restore(saved)
        except Exception as error:  # its sums hold, but it is not of such a run
            reason = f"{type(error).__name__}: {error}"
            raise UserError(f"the checkpoint is not of this run ({reason})") from error

    def _restore(self, saved: Saved) -> list[str]:
        """Goes to where `saved` was; says what could not be brought there."""
        content, rank = saved.content, self.share.rank
        own = content["ranks"][rank - 1] if rank else content
        self.taken, self.epoch = content["taken"], content["epoch"]
        self.best, self.owes_update = content["best"], content["owes_update"]
        self._epoch_taken, self._earlier = content["epoch_taken"], content["seconds"]
        self._samples = Logger.samples(own["logger"])
        self.act_rng.bit_generator.state = own["act_rng"]
        self.batch_rng.bit_generator.state = own["batch_rng"]
        restored = checkpoint.unflatten(self.state, content["state"])
        # Settings are those of the run, which may be longer now.
        asarray = lambda leaf, old: jax.numpy.asarray(leaf, old.dtype)  # noqa: E731
        config = jax.tree.map(asarray, self.run.config, restored.config)
        self.state = dataclasses.replace(restored, config=config)
        if isinstance(self.experience, Rollout):
            self.experience.restore(own["rollout"])
        elif saved.rows is not None:
            self.experience.restore(saved.rows, saved.first)
            self._kept_rows = self.experience.inserted
        if self.test_envs:
            self.test_envs.restore(own["test_envs"])
        if lost := self.envs.restore(own["envs"]):
            numbers = ", ".join(map(str, lost))
            return [
                f"the episode of environment {numbers} could not be lived through "
                "again; it goes on from a reset"
            ]
        return []


def _streams(seed: int, rank: int) -> list[np.random.SeedSequence]:
    """Of random numbers, three for each rank and none shared."""
    # A sequence's children are told apart by keys; rank 0 has the first three.
    root = np.random.SeedSequence(seed, spawn_key=(2 + rank,) if rank else ())
    return root.spawn(3)


def _resolved(run: Run, devices: int) -> Run:
    """With the numbers of processes and devices that there are."""
    if run.num_procs not in (0, 1, mpi.size()):
        raise ValueError(
            f"num_procs is {run.num_procs}, but there {_are(mpi.size())}; start it "
            f"under mpirun -n {run.num_procs}"
        )
    return dataclasses.replace(run, num_procs=mpi.size(), devices=devices)


def _are(processes: int) -> str:
    return "is one process" if processes == 1 else f"are {processes} processes"


def _learning_rate(config: Any) -> float:
    """The policy's, or where it has none the critic's."""
    names = ("lr", "pi_lr", "vf_lr")
    return next(getattr(config, name) for name in names if hasattr(config, name))
