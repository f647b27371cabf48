"""Training in environments that live on the host.

On-policy: a rollout, then one jitted call. Off-policy: `update_every` steps, then as
many updates in one scan over batches sampled at once.
"""

import concurrent.futures
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl import checks, envs
from jaxrl.runs import directory
from jaxrl.runs.logger import Logger, Row, Screen, Wandb
from jaxrl.runs.spec import Refused, Run
from jaxrl.training.acting import Actor, numpy_policy
from jaxrl.training.experience import Ring, Rollout, unpack
from jaxrl.types import OffPolicy, OnPolicy, Transition

OnEpoch = Callable[[Any, int], dict[str, Any] | None]

# Spinning Up's columns, in its order; those that an algorithm lacks are left out.
BEFORE = ("VVals",)
AFTER = (
    *("QVals", "Q1Vals", "Q2Vals", "LogPi", "LossPi", "LossV", "LossQ"),
    *("DeltaLossPi", "DeltaLossV", "Entropy", "KL", "ClipFrac", "StopIter"),
    "BacktrackIters",
)
CLOCKS = ("Time", "StepsPerSecond", "EnvSeconds", "ActSeconds", "UpdateSeconds")


class Result(NamedTuple):
    """What a run comes to."""

    state: Any
    history: list[Row]
    directory: Path


def train(run: Run, screen: bool = True, on_epoch: OnEpoch | None = None) -> Result:
    """Runs it to its end; refuses, before anything is written, what cannot be run.

    `on_epoch(state, step)` may return metrics to log in that epoch's row.
    """
    trainer = Trainer(run, screen, on_epoch)
    try:
        trainer.run_to_the_end()
    finally:
        trainer.close()
    return Result(trainer.state, trainer.logger.history, trainer.path)


class Trainer:
    """A run under way."""

    def __init__(self, run: Run, screen: bool, on_epoch: OnEpoch | None) -> None:
        self.run, self.algo, self.data = run, run.module, run.data
        streams = np.random.SeedSequence(run.seed).spawn(3)
        self.act_rng, self.batch_rng = map(np.random.default_rng, streams[:2])
        env_seed, test_seed, init_seed = streams[2].generate_state(3)
        try:
            self.envs = self._environments(self.data.num_envs, int(env_seed))
            init = jax.jit(self.algo.init, static_argnums=1)
            key = jax.random.key(int(init_seed))
            config = checks.config(run.config, self.algo.Config)
            self.state = init(key, self.envs.spec, config)
            self._learn, shapes = self._compile()
        except ValueError as error:
            raise Refused(str(error)) from None
        self.tests = getattr(self.data, "num_test_episodes", 0)
        self.test_envs = self._environments(1, int(test_seed)) if self.tests else None
        self.actor = Actor(self.algo, self.data.num_envs)
        self.actor.follow(self.state)
        self.taken, self.epoch, self.best = 0, 0, -np.inf
        self.on_epoch = on_epoch
        self._spent = dict.fromkeys(("EnvSeconds", "ActSeconds", "UpdateSeconds"), 0.0)
        self._start = self._epoch_start = time.perf_counter()
        self._epoch_taken = 0
        self.path = directory.create(run)
        self.logger = Logger(self.path, *self._columns(shapes))
        self.screen = Screen(run.total_steps) if screen else None
        for sink in filter(None, (self.screen, self._wandb())):
            self.logger.add_sink(sink)

    def _environments(self, count: int, seed: int) -> Any:
        run = self.run
        return envs.make(run.env, count, seed, self.data.max_ep_len, run.env_kwargs)

    def _wandb(self) -> Wandb | None:
        if not self.run.wandb:
            return None
        config = directory.described(self.run)
        return Wandb(self.path, self.path.name, config)

    # Compiling

    def _compile(self) -> tuple[Callable[[], Any], Any]:
        """The update, compiled while the first steps are taken; its metrics' shapes."""
        learn, batch = self._update_and_batch()
        jitted = jax.jit(learn, donate_argnums=0)
        state = jax.eval_shape(lambda: self.state)
        shapes = jax.eval_shape(learn, state, batch)[1]
        pool = concurrent.futures.ThreadPoolExecutor(1)
        compiled = pool.submit(lambda: jitted.lower(state, batch).compile())
        pool.shutdown(wait=False)
        return compiled.result, shapes

    def _update_and_batch(self) -> tuple[Callable[[Any, Any], Any], Any]:
        spec, data = self.envs.spec, self.data
        if isinstance(data, OnPolicy):
            self.rollout = Rollout(self._steps_of_a_rollout(), data.num_envs, spec)
            return self.algo.update, jax.eval_shape(lambda: self.rollout.data)

        def learn(state: Any, rows: jax.Array) -> tuple[Any, Any]:
            batches = unpack(rows, spec.obs_size)
            return jax.lax.scan(self.algo.update, state, batches)

        self.ring = Ring(data.replay_size, spec)
        shape = (self._updates_of_a_round(), data.batch_size, self.ring.rows.shape[1])
        return learn, jax.ShapeDtypeStruct(shape, np.float32)

    def _steps_of_a_rollout(self) -> int:
        steps, count = self.data.steps_per_epoch, self.data.num_envs
        if steps % count:
            raise Refused(
                f"steps_per_epoch is {steps}, but {count} environments must share the "
                f"steps evenly; make it a multiple of {count}"
            )
        return steps // count

    def _updates_of_a_round(self) -> int:
        assert isinstance(self.data, OffPolicy)
        rounds = -(-self.data.update_every // self.data.num_envs)
        return rounds * self.data.num_envs

    # The loop

    def run_to_the_end(self) -> None:
        fresh = isinstance(self.data, OnPolicy)
        while self.taken < self.run.total_steps:
            self._fresh_epoch() if fresh else self._replayed_epoch()
            self._end_epoch()

    def _fresh_epoch(self) -> None:
        for t in range(len(self.rollout.data.reward)):
            self.rollout.put(t, *self._step())
        self._update(self.rollout.data)

    def _replayed_epoch(self) -> None:
        data = self.data
        assert isinstance(data, OffPolicy)
        end = min((self.epoch + 1) * data.steps_per_epoch, self.run.total_steps)
        round_steps = self._updates_of_a_round()
        while self.taken < end:
            self.ring.insert(*self._step())
            if self.taken >= data.update_after and self.taken % round_steps == 0:
                shape = (round_steps, data.batch_size)
                self._update(self.ring.sample(self.batch_rng, *shape))

    def _step(self) -> tuple[np.ndarray, np.ndarray, Any]:
        """What was seen, done and met; the first `start_steps` steps are random."""
        start = time.perf_counter()
        obs = self.envs.obs.copy()  # which the step will replace
        random = getattr(self.data, "start_steps", 0) - self.taken
        if random < len(obs):
            action = self.actor(obs, self.act_rng)
        if random > 0:
            shape = (len(obs), self.envs.spec.action.size)
            chance = self.act_rng.uniform(-1, 1, shape).astype(np.float32)
            if random < len(obs):
                chance[random:] = action[random:]
            action = chance
        acted = time.perf_counter()
        after = self.envs.step(action)
        self._spent["ActSeconds"] += acted - start
        self._spent["EnvSeconds"] += time.perf_counter() - acted
        self.taken += len(obs)
        if self.screen:
            self.screen.progress(self.taken)
        return obs, action, after

    def _update(self, batch: Transition | np.ndarray) -> None:
        learn = self._learn()  # waits for the compiler, the first time
        start = time.perf_counter()
        self.state, metrics = learn(self.state, batch)
        metrics = {name: np.asarray(value) for name, value in metrics.items()}
        for name, value in metrics.items():
            if not np.isfinite(value).all():
                raise FloatingPointError(f"{name} is not finite at step {self.taken}")
        self.logger.store(**metrics)
        self.actor.follow(self.state)
        self._spent["UpdateSeconds"] += time.perf_counter() - start

    # The end of an epoch

    def _end_epoch(self) -> None:
        self.epoch += 1
        log = self.logger
        episodes = self.envs.take_finished()
        log.store(EpRet=[e.returned for e in episodes])
        log.store(EpLen=[e.length for e in episodes])
        self._test()
        now = time.perf_counter()
        speed = (self.taken - self._epoch_taken) / (now - self._epoch_start)
        log.store(
            Epoch=self.epoch,
            TotalEnvInteracts=self.taken,
            Time=now - self._start,
            StepsPerSecond=speed,
            **self._spent,
        )
        if "LearningRate" not in log.stored:
            log.store(LearningRate=_learning_rate(self.run.config))
        if self.on_epoch:
            log.store(**(self.on_epoch(self.state, self.taken) or {}))
        self._save(log.dump(self.taken))
        self._spent = dict.fromkeys(self._spent, 0.0)
        self._epoch_start, self._epoch_taken = time.perf_counter(), self.taken

    def _test(self) -> None:
        """Greedy episodes in an environment of their own."""
        if self.test_envs is None:
            return
        while len(self.test_envs.finished) < self.tests:
            self.test_envs.step(self.actor(self.test_envs.obs))
        episodes = self.test_envs.take_finished()
        self.logger.store(TestEpRet=[e.returned for e in episodes])
        self.logger.store(TestEpLen=[e.length for e in episodes])

    def _save(self, row: Row) -> None:
        """The model, and the best one by its tests or else its episodes."""
        score = row.get("AverageTestEpRet", row["AverageEpRet"])
        better = score is not None and score > self.best
        last = self.taken >= self.run.total_steps
        if not better and not last and self.epoch % self.data.save_freq:
            return
        policy = numpy_policy(self.state)
        assert policy is not None  # a run has jaxrl's own networks
        save = (self.run, self.envs.spec, policy, self.taken)
        directory.save_model(self.path / "models" / "last", *save)
        if better and score is not None:
            self.best = score
            directory.save_model(self.path / "models" / "best", *save)

    def _columns(self, shapes: dict[str, Any]) -> tuple[list[str], set[str]]:
        """Names of the columns in order, and those that have four columns each."""
        rank = 0 if isinstance(self.data, OnPolicy) else 1  # a scan stacks metrics
        spread = {name for name, x in shapes.items() if len(x.shape) > rank}
        spread |= {"EpRet", "TestEpRet"}
        tests = ["TestEpRet", "EpLen", "TestEpLen"] if self.tests else ["EpLen"]
        names = ["Epoch", "EpRet", *tests, *(n for n in BEFORE if n in shapes)]
        names += ["TotalEnvInteracts", *(n for n in AFTER if n in shapes)]
        names += sorted(n for n in shapes if n not in (*names, "LearningRate"))
        return [*names, "LearningRate", *CLOCKS], spread

    def close(self) -> None:
        self.logger.close()
        self.envs.close()
        if self.test_envs is not None:
            self.test_envs.close()


def _learning_rate(config: Any) -> float:
    """The policy's, or where it has none the critic's."""
    names = ("lr", "pi_lr", "vf_lr")
    return next(getattr(config, name) for name in names if hasattr(config, name))
