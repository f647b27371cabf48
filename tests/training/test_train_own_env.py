"""Runs in a user's own environments: from Python, by name, of images, in workers."""

import signal

import gymnasium as gym
import numpy as np
import own_envs
import pytest
import yaml
from small_runs import (
    Killed,
    always,
    assert_same,
    at_step,
    kill,
    signalled,
    table,
    train,
)

import jaxrl
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.runs.checkpoint_writer import CheckpointWriter

ON_POLICY = ("vpg", "trpo", "ppo")


def env_in(run):
    return yaml.safe_load((run.directory / "config.yaml").read_text())["env"]


def resumed_twice(monkeypatch, path, algo, env, resume_with, **settings):
    """A run that a signal stops, that is resumed, killed and resumed again."""
    monkeypatch.setattr(CheckpointWriter, "affordable", always)
    at_step(monkeypatch, 50, signalled)
    left = train(path, algo, env, **settings)
    assert left.stopped_by == signal.SIGTERM
    at_step(monkeypatch, 110, kill)
    with pytest.raises(Killed):
        jaxrl.resume(left.directory, env=resume_with(), screen=False)
    return jaxrl.resume(left.directory, env=resume_with(), screen=False)


def test_a_named_callable_is_found_again_by_commands(tmp_path, capsys):
    run = train(tmp_path, "sac", own_envs.make_pendulum, env_kwargs={"limit": 5})
    assert env_in(run) == "own_envs:make_pendulum"
    by_name = train(tmp_path / "b", "sac", env_in(run), env_kwargs={"limit": 5})
    assert_same(run, by_name)
    assert main(["eval", str(run.directory), "--episodes", "1"]) == 0
    assert "EpLen 5" in capsys.readouterr().out
    assert main(["resume", str(run.directory), "--steps", "180"]) == 0
    policy, env = jaxrl.load(run.directory)
    jaxrl.evaluate_policy(policy, env, 1)


def test_a_lambda_is_trained_and_resumed_exactly(tmp_path, monkeypatch):
    settings = {"epochs": 3, "num_envs": 2}
    named = train(tmp_path / "a", "sac", own_envs.make_pendulum, **settings)
    resumed = resumed_twice(
        monkeypatch,
        tmp_path / "b",
        "sac",
        lambda: own_envs.make_pendulum(),
        lambda: own_envs.make_pendulum,
        **settings,
    )
    assert env_in(resumed) == "python:lambda"
    assert_same(resumed, named)


def test_an_instance_is_trained_and_resumed_exactly(tmp_path, monkeypatch):
    settings = {"epochs": 3, "num_test_episodes": 0}
    named = train(tmp_path / "a", "sac", own_envs.make_pendulum, **settings)
    env = own_envs.make_pendulum()
    resumed = resumed_twice(
        monkeypatch, tmp_path / "b", "sac", env, lambda: env, **settings
    )
    assert env_in(resumed) == "python:PendulumEnv"
    assert_same(resumed, named)
    env.reset()  # still open


def test_an_instance_has_no_test_episodes_unless_asked_for(tmp_path):
    few = {"steps": 60, "steps_per_epoch": 60, "start_steps": 60, "hidden": "8"}
    few |= {"out": str(tmp_path), "screen": False, "update_after": 60}
    run = jaxrl.train("sac", own_envs.Count(), **few)
    assert "AverageTestEpRet" not in run.history[-1]
    with pytest.raises(UserError, match="callable"):
        jaxrl.train("sac", own_envs.Count(), num_test_episodes=1, seed=1, **few)
    assert not (run.directory.parent / f"{run.directory.parent.name}_s1").exists()


@pytest.fixture(scope="module")
def unnamed(tmp_path_factory):
    out = tmp_path_factory.mktemp("unnamed")
    return train(out, "ppo", lambda: gym.make("CartPole-v1"), minibatches=2)


@pytest.mark.parametrize("command", ["eval", "resume", "rerun"])
def test_a_command_says_that_an_environment_came_from_python(unnamed, command, capsys):
    before = table(unnamed.directory)
    assert main([command, str(unnamed.directory)]) == 2
    assert "env=" in capsys.readouterr().err
    assert table(unnamed.directory) == before


def test_commands_that_only_read_work_without_the_environment(
    unnamed, capsys, tmp_path
):
    out = str(unnamed.directory.parents[1])
    assert main(["ls", out]) == 0
    assert main(["report", out, "-o", str(tmp_path / "report.html")]) == 0
    assert main(["plot", out, "-o", str(tmp_path / "plot.png")]) == 0
    export = ["export", str(unnamed.directory), "-o", str(tmp_path / "policy.npz")]
    assert main(export) == 0
    assert unnamed.directory.name in capsys.readouterr().out


def test_an_environment_with_other_spaces_is_refused(unnamed):
    for use in (jaxrl.load, jaxrl.resume):
        with pytest.raises(UserError, match="Discrete"):
            use(unnamed.directory, env="Acrobot-v1")


def test_resume_refuses_another_environment_than_the_named_one(tmp_path):
    run = train(tmp_path, "ppo", "CartPole-v1", minibatches=2, epochs=1)
    with pytest.raises(UserError, match="CartPole-v1"):
        jaxrl.resume(run.directory, 128, env=own_envs.Count, screen=False)
    resumed = jaxrl.resume(run.directory, 128, env="CartPole-v1", screen=False)
    assert len(resumed.history) == 2


def test_a_video_needs_a_name(tmp_path):
    with pytest.raises(UserError, match="module"):
        train(tmp_path, "ppo", lambda: gym.make("CartPole-v1"), video_every=1)
    assert not list(tmp_path.rglob("config.yaml"))


def test_a_callable_that_returns_one_environment_for_two_uses_is_refused(tmp_path):
    shared = own_envs.Count()
    with pytest.raises(UserError, match="twice"):
        train(tmp_path, "sac", lambda: shared)


# Spaces


@pytest.mark.parametrize("algo", ON_POLICY)
@pytest.mark.parametrize("env", [own_envs.Mixed, own_envs.Switches])
def test_several_discrete_actions_train_on_policy(algo, env, tmp_path, capsys):
    settings = {"minibatches": 2} if algo == "ppo" else {}
    run = train(tmp_path, algo, env, num_envs=2, num_test_episodes=1, **settings)
    assert np.isfinite(run.history[-1]["LossPi"])
    assert main(["eval", str(run.directory), "--episodes", "2"]) == 0


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_algorithms_for_real_actions_refuse_the_others(algo, tmp_path):
    for env in (own_envs.Mixed, own_envs.Switches):
        with pytest.raises(UserError, match="use vpg, trpo or ppo"):
            train(tmp_path, algo, env)
    image = gym.wrappers.TransformObservation(
        gym.make("Pendulum-v1"),
        lambda obs: np.zeros((10, 10, 1), np.uint8),
        gym.spaces.Box(0, 255, (10, 10, 1), np.uint8),
    )
    with pytest.raises(UserError, match=r"image.*vpg, trpo or ppo"):
        train(tmp_path, algo, image, num_test_episodes=0)


# Images

IMAGES = {"epochs": 2, "minibatches": 2, "train_pi_iters": 1, "train_v_iters": 1}


def test_a_run_of_images_is_resumed_exactly_evaluated_and_recorded(
    tmp_path, monkeypatch, capsys
):
    env = own_envs.Picture
    settings = IMAGES | {"num_envs": 2, "num_test_episodes": 1}
    whole = train(tmp_path / "a", "ppo", env, **settings)
    resumed = resumed_twice(
        monkeypatch, tmp_path / "b", "ppo", env, lambda: None, **settings
    )
    assert_same(resumed, whole)
    assert main(["eval", str(whole.directory), "--episodes", "1"]) == 0
    video = tmp_path / "agent.gif"
    assert (
        main(["video", str(whole.directory), "--episodes", "1", "-o", str(video)]) == 0
    )
    assert video.stat().st_size > 0


@pytest.mark.parametrize("algo", ["vpg", "trpo"])
def test_images_train_with_the_other_two(algo, tmp_path):
    kwargs = {"shape": [3, 12, 11]}
    settings = {"epochs": 1, "train_v_iters": 1}
    run = train(tmp_path, algo, own_envs.Picture, env_kwargs=kwargs, **settings)
    policy, _ = jaxrl.load(run.directory)
    assert policy.image.channels_first


@pytest.mark.parametrize(
    ("encoder", "words"), [("nature_cnn", "not an image"), ("big", "encoder")]
)
def test_an_encoder_that_does_not_fit_is_refused(encoder, words, tmp_path):
    with pytest.raises(UserError, match=words):
        train(tmp_path, "ppo", "CartPole-v1", encoder=encoder)


def test_an_image_beside_other_observations_is_not_silently_flattened(tmp_path):
    class Beside(own_envs.Picture):
        def __init__(self):
            super().__init__()
            image = self.observation_space
            one = gym.spaces.Discrete(2)
            self.observation_space = gym.spaces.Dict(image=image, one=one)

        def _draw(self):
            image = np.zeros((10, 10, 1), np.uint8)
            self.choice = 1
            return {"image": image, "one": 0}

    with pytest.raises(UserError, match="encoder"):
        train(tmp_path, "ppo", Beside, **IMAGES)
    run = train(tmp_path, "ppo", Beside, encoder="mlp", **IMAGES)
    assert run.state.networks.actor.logits.widths == (8, 5)


def test_an_image_may_go_to_an_mlp_if_asked_for(tmp_path):
    settings = IMAGES | {"encoder": "mlp"}
    run = train(tmp_path, "ppo", own_envs.Picture, **settings)
    policy, env = jaxrl.load(run.directory)
    assert policy.image is None
    assert run.state.obs_norm is not None
    jaxrl.evaluate_policy(policy, env, 1)


# Workers


@pytest.mark.parametrize("algo", ["sac", "ppo"])
def test_workers_change_no_result_and_resume_exactly(algo, tmp_path, monkeypatch):
    settings = {"epochs": 3, "num_envs": 2}
    settings |= {"minibatches": 2} if algo == "ppo" else {}
    env = "own_envs:make_pendulum"
    alone = train(tmp_path / "a", algo, env, **settings)
    settings["env_workers"] = 2
    shared = train(tmp_path / "b", algo, env, **settings)
    assert_same(shared, alone)
    resumed = resumed_twice(
        monkeypatch, tmp_path / "c", algo, env, lambda: None, **settings
    )
    assert_same(resumed, alone)


def test_an_error_in_a_worker_reaches_the_user_in_a_sentence(tmp_path, capsys):
    words = ["train", "sac", "--env", "own_envs:Count-v0", "--num_envs", "2"]
    words += ["--env_workers", "2", "--env_kwargs", "{fault: reward}"]
    assert main([*words, "--out", str(tmp_path)]) == 1
    assert "reward is not finite" in capsys.readouterr().err


def test_workers_for_what_they_cannot_find_are_refused(tmp_path):
    with pytest.raises(UserError, match="env_workers"):
        train(tmp_path, "sac", lambda: own_envs.Count(), num_envs=2, env_workers=2)
    assert not list(tmp_path.rglob("config.yaml"))
