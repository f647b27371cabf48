"""Runs in JAX environments: the same files, log, models and exact resume as others."""

import csv
import os
import signal

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.phys2d.cartpole import CartPoleFunctional

import jaxrl
from jaxrl.cli.main import main
from jaxrl.envs.jax import Step
from jaxrl.errors import UserError
from jaxrl.logging.columns import CLOCKS
from jaxrl.runs import arrays
from jaxrl.spaces import Discrete, EnvSpec
from jaxrl.training import jax_loop

SMALL = {
    "ppo": {"steps_per_epoch": 128, "num_envs": 4, "minibatches": 4},
    "vpg": {"steps_per_epoch": 128, "num_envs": 4},
    "trpo": {"steps_per_epoch": 128, "num_envs": 4},
    "sac": {"steps_per_epoch": 100, "update_every": 20, "num_envs": 2},
    "td3": {"steps_per_epoch": 100, "update_every": 20, "num_envs": 2},
    "ddpg": {"steps_per_epoch": 100, "update_every": 20, "num_envs": 2},
}
REPLAY = {"start_steps": 60, "update_after": 60, "batch_size": 16, "replay_size": 150}
ENVS = {"ppo": "phys2d/CartPole-v1"} | dict.fromkeys(
    ("vpg", "trpo", "sac", "td3", "ddpg"), "phys2d/Pendulum-v0"
)
each_algorithm = pytest.mark.parametrize("algo", SMALL)


def small(algo, **changes):
    replay = REPLAY if algo in ("sac", "td3", "ddpg") else {}
    own = {"hidden": (8,), "num_test_episodes": 2, "epochs": 4, "max_ep_len": 30}
    return SMALL[algo] | replay | own | {"screen": False} | changes


def rows(result):
    """Of progress.csv, without the columns of time."""
    with (result.directory / "progress.csv").open() as file:
        return [
            {name: x for name, x in row.items() if name not in CLOCKS}
            for row in csv.DictReader(file)
        ]


def assert_same(one, other):
    assert rows(one) == rows(other)
    leaves, others = (arrays.flatten(x.state) for x in (one, other))
    for name in leaves:
        np.testing.assert_array_equal(leaves[name], others[name])


@each_algorithm
def test_a_stopped_run_resumes_as_if_it_had_not_stopped(algo, tmp_path):
    def stop(state, step):
        if step >= 2 * SMALL[algo]["steps_per_epoch"]:
            os.kill(os.getpid(), signal.SIGTERM)

    whole = jaxrl.train(algo, ENVS[algo], out=str(tmp_path / "whole"), **small(algo))
    cut = jaxrl.train(
        algo, ENVS[algo], out=str(tmp_path / "cut"), on_epoch=stop, **small(algo)
    )
    assert cut.stopped_by is signal.SIGTERM
    assert len(cut.history) == 2
    resumed = jaxrl.resume(cut.directory, screen=False)
    assert len(resumed.history) == len(whole.history) == 4
    assert_same(whole, resumed)
    assert np.isfinite([row["AverageTestEpRet"] for row in whole.history]).all()


def test_a_signal_while_it_compiles_leaves_a_run_that_resumes(tmp_path, monkeypatch):
    def interrupt(runs):
        os.kill(os.getpid(), signal.SIGTERM)
        return False

    own = small("ppo", epochs=2)
    whole = jaxrl.train("ppo", ENVS["ppo"], out=str(tmp_path / "whole"), **own)
    monkeypatch.setattr(jax_loop, "wait_for_compiler", interrupt)
    cut = jaxrl.train("ppo", ENVS["ppo"], out=str(tmp_path / "cut"), **own)
    both = jaxrl.train("ppo", ENVS["ppo"], seeds=2, out=str(tmp_path / "two"), **own)
    monkeypatch.undo()
    assert {run.stopped_by for run in (cut, *both)} == {signal.SIGTERM}
    for run in (cut, both[0]):
        assert_same(whole, jaxrl.resume(run.directory, screen=False))


def test_columns_are_those_of_gymnasiums_environments(tmp_path):
    ours = jaxrl.train("ppo", "phys2d/CartPole-v1", out=str(tmp_path), **small("ppo"))
    theirs = jaxrl.train("ppo", "CartPole-v1", out=str(tmp_path), **small("ppo"))
    assert list(ours.history[0]) == list(theirs.history[0])


def test_its_policy_is_played_by_eval_and_load(tmp_path, capsys):
    run = jaxrl.train("ppo", "phys2d/CartPole-v1", out=str(tmp_path), **small("ppo"))
    policy, env = jaxrl.load(run.directory)
    mean, _ = jaxrl.evaluate_policy(policy, env, 3)
    assert 1 <= mean <= 30
    assert main(["eval", str(run.directory), "-n", "2"]) == 0
    assert main(["ls", str(tmp_path)]) == 0
    assert "finished" in capsys.readouterr().out


def test_it_is_recorded_while_it_trains_and_afterwards(tmp_path, capfd):
    words = ["train", "ppo", "--env", "phys2d/CartPole-v1", "--out", str(tmp_path)]
    words += ["--epochs", "2", "--hidden", "8", "--max_ep_len", "20"]
    assert main([*words, "--video_every", "2", "--exp_name", "x"]) == 0
    (during,) = tmp_path.glob("x/x_s0/videos/*.mp4")
    assert during.stat().st_size > 1000
    capfd.readouterr()
    video = tmp_path / "x.mp4"
    assert main(["video", str(tmp_path / "x" / "x_s0"), "-o", str(video)]) == 0
    assert video.stat().st_size > 1000
    out, err = capfd.readouterr()
    assert (out.count("\n"), err) == (1, "")  # nothing of the packages that draw


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("phys2d/Pole-v1", ["phys2d/Pole-v1"]),
        ("gymnax/Pole", ["gymnax"]),
        ("brax/hoper", ["brax"]),
        ("playground/Nope", ["playground"]),
    ],
)
def test_an_unknown_environment_is_refused_before_anything_is_written(
    env, words, tmp_path
):
    with pytest.raises(UserError) as refused:
        jaxrl.train("ppo", env, out=str(tmp_path), **small("ppo"))
    assert all(word in str(refused.value) for word in words)
    assert not list(tmp_path.iterdir())


def test_a_replay_that_does_not_fit_is_refused_with_its_size(tmp_path):
    with pytest.raises(UserError, match=r"GB.*replay_size"):
        jaxrl.train(
            "sac",
            "phys2d/Pendulum-v0",
            out=str(tmp_path),
            **small("sac", replay_size=10**12),
        )


def test_off_policy_algorithms_refuse_discrete_actions(tmp_path):
    with pytest.raises(UserError, match="discrete"):
        jaxrl.train("sac", "phys2d/CartPole-v1", out=str(tmp_path), **small("sac"))


def test_keys_of_the_run_differ_by_seed(tmp_path):
    one, other = (
        jaxrl.train(
            "vpg", "phys2d/CartPole-v1", seed=s, out=str(tmp_path), **small("vpg")
        )
        for s in (0, 1)
    )
    assert rows(one) != rows(other)


class Counting:
    """Counts up to `length`; the reward is 1 for action 1."""

    spec = EnvSpec(1, Discrete(2))

    def __init__(self, length=5):
        self.length = length

    def reset(self, key):
        return jnp.zeros(()), jnp.zeros(1)

    def step(self, state, action, key):
        after = state + 1
        reward = jnp.asarray(action, float)
        return Step(after, after[None], reward, after >= self.length, jnp.array(False))


def test_an_object_with_our_protocol_is_trained_resumed_and_played(tmp_path):
    settings = small("ppo", out=str(tmp_path))
    run = jaxrl.train("ppo", Counting(), **settings)
    assert run.history[-1]["EpLen"] == 5
    with pytest.raises(UserError, match="env"):
        jaxrl.resume(run.directory, steps=1024, screen=False)
    longer = jaxrl.resume(run.directory, steps=1024, screen=False, env=Counting())
    assert len(longer.history) == 8
    policy, env = jaxrl.load(run.directory, env=Counting())
    assert 0 <= jaxrl.evaluate_policy(policy, env, 2)[0] <= 5


def test_a_class_is_named_in_the_config_and_found_by_commands(tmp_path):
    name = f"{Counting.__module__}:Counting"
    run = jaxrl.train(
        "ppo", name, env_kwargs={"length": 3}, **small("ppo", out=str(tmp_path))
    )
    assert run.history[-1]["EpLen"] == 3
    assert name in (run.directory / "config.yaml").read_text()
    assert main(["eval", str(run.directory), "-n", "2"]) == 0


def test_a_functional_environment_of_gymnasium_is_trained_as_it_is(tmp_path):
    env = CartPoleFunctional()
    run = jaxrl.train("vpg", env, **small("vpg", out=str(tmp_path)))
    assert 1 <= run.history[-1]["AverageEpRet"] <= 30


def test_an_environment_with_wrong_shapes_is_refused(tmp_path):
    class Wide(Counting):
        spec = EnvSpec(2, Discrete(2))

    with pytest.raises(UserError, match="Wide has observations of shape"):
        jaxrl.train("ppo", Wide(), **small("ppo", out=str(tmp_path)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_two_devices_share_a_run_which_resumes_exactly(algo, tmp_path):
    own = small(algo, devices=2)
    whole = jaxrl.train(algo, ENVS[algo], out=str(tmp_path / "a"), **own)
    assert whole.history[-1]["TotalEnvInteracts"] == 4 * own["steps_per_epoch"]

    def stop(state, step):
        if step >= 2 * own["steps_per_epoch"]:
            os.kill(os.getpid(), signal.SIGTERM)

    cut = jaxrl.train(algo, ENVS[algo], out=str(tmp_path / "b"), on_epoch=stop, **own)
    assert len(cut.history) == 2
    assert_same(whole, jaxrl.resume(cut.directory, screen=False))
    one = jaxrl.train(algo, ENVS[algo], out=str(tmp_path), **own | {"devices": 1})
    assert rows(one) != rows(whole)  # other random numbers


@pytest.mark.parametrize("algo", ["sac", pytest.param("ppo", marks=pytest.mark.mpi)])
def test_two_processes_train_and_resume_exactly(algo, tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    own = small(algo, num_procs=2, epochs=3)
    whole = jaxrl.train(algo, ENVS[algo], out=str(tmp_path / "a"), **own)
    assert whole.history[-1]["TotalEnvInteracts"] == 3 * own["steps_per_epoch"]
    half = jaxrl.train(
        algo, ENVS[algo], out=str(tmp_path / "b"), stop_return=-1e9, **own
    )
    assert len(half.history) < 3
    resumed = jaxrl.resume(
        half.directory, steps=3 * own["steps_per_epoch"], screen=False
    )
    assert_same(whole, resumed)
