"""Networks of a user in a run: trained, resumed, played, refused."""

import numpy as np
import own_nets
import pytest
import yaml
from small_runs import Killed, always, assert_same, at_step, kill, small, table, train

import jaxrl
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.maths.nets import Networks, TanhGaussianPolicy
from jaxrl.policy import Policy
from jaxrl.runs.checkpoint_writer import CheckpointWriter

ENV = "Pendulum-v1"
NETWORKS = ("hidden", "activation", "initializer", "encoder")  # settings of jaxrl's own
VALUE = Networks(TanhGaussianPolicy(own_nets.Normed(2)), own_nets.Critic())
GIVEN = {
    "own_nets:small": "own_nets:small",
    "own_nets:Maker.make": own_nets.Maker.make,
    "python:TanhGaussianPolicy": VALUE,
    "python:lambda": lambda spec: own_nets.small(spec),
}
given = pytest.mark.parametrize(("name", "networks"), GIVEN.items(), ids=[*GIVEN])


def again(name, networks):
    """What must be given again to resume or load."""
    return {"networks": networks} if name.startswith("python:") else {}


@given
def test_a_killed_run_resumes_exactly_and_is_played(
    tmp_path, monkeypatch, name, networks
):
    monkeypatch.setattr(CheckpointWriter, "affordable", always)
    whole = train(tmp_path / "whole", "sac", ENV, networks=networks)
    config = yaml.safe_load((whole.directory / "config.yaml").read_text())
    assert config["networks"] == name
    at_step(monkeypatch, 90, kill)
    with pytest.raises(Killed):
        train(tmp_path, "sac", ENV, networks=networks)
    run = tmp_path / f"sac-{ENV}" / f"sac-{ENV}_s0"
    if again(name, networks):
        with pytest.raises(UserError, match="resume"):
            jaxrl.resume(run, screen=False)
        with pytest.raises(UserError, match="load"):
            jaxrl.load(whole.directory)
    assert_same(whole, jaxrl.resume(run, screen=False, **again(name, networks)))
    policy, env = jaxrl.load(whole.directory, **again(name, networks))
    obs = np.ones((5, 3), np.float32)
    greedy = jaxrl.algos.sac.act(whole.state, obs)
    np.testing.assert_allclose(policy(obs), 2 * greedy, rtol=1e-5)  # bounds of ±2
    mean, _ = jaxrl.evaluate_policy(policy, env, num_test_episodes=1)
    assert np.isfinite(mean)


def test_the_command_trains_evaluates_and_records(tmp_path, capsys):
    words = [f"--{k}={v}" for k, v in small("sac", video_every=1).items()]
    words += ["--networks", "own_nets:small", "--out", str(tmp_path)]
    assert main(["train", "sac", "--env", ENV, *words, "--exp_name", "n"]) == 0
    run = tmp_path / "n/n_s0"
    assert len([*run.glob("videos/*.mp4")]) == 2
    assert main(["eval", str(run), "--episodes", "1", "--stochastic"]) == 0
    capsys.readouterr()
    assert main(["export", str(run), "-o", str(tmp_path / "x.npz")]) == 2
    assert "NumPy" in capsys.readouterr().err
    assert main(["rerun", str(run), "--seed", "1", "--video_every", "0"]) == 0
    assert main(["rerun", str(run), "--networks", "own_nets:wide"]) == 0
    changed = yaml.safe_load((tmp_path / "n-rerun/n-rerun_s0/config.yaml").read_text())
    assert changed["networks"] == "own_nets:wide"


@pytest.mark.parametrize("env", [ENV, "CartPole-v1"])
def test_on_policy_networks_of_a_user(tmp_path, env):
    result = train(tmp_path, "ppo", env, networks=own_nets.on_policy)
    policy, made = jaxrl.load(result.directory)
    obs, _ = made.reset(seed=0)
    made.step(policy(obs))
    made.step(policy(obs, np.random.default_rng(0)))


def test_networks_that_numpy_can_play_are_saved_for_it(tmp_path):
    run = train(tmp_path, "sac", ENV, networks=own_nets.replayable).directory
    policy, _ = jaxrl.load(run)
    assert isinstance(policy, Policy)
    assert not (run / "models/last/act.npz").exists()


@pytest.mark.parametrize(
    ("settings", "unused"),
    [
        ({"hidden": [7], "activation": "tanh"}, ["hidden", "activation"]),
        ({"algo": "ppo", "encoder": "nature_cnn"}, ["encoder"]),
        ({"algo": "ppo", "preset": "spinup", "encoder": "mlp"}, []),
        ({}, []),
    ],
)
def test_settings_without_effect_are_named(tmp_path, capsys, settings, unused):
    settings = {"algo": "sac"} | settings
    given = {name: x for name, x in small(settings["algo"]).items() if name != "hidden"}
    networks = "small" if settings["algo"] == "sac" else "on_policy"
    given |= {"networks": f"own_nets:{networks}", "out": str(tmp_path), "env": ENV}
    jaxrl.train(given | settings)
    lines = "".join(capsys.readouterr()).splitlines()
    named = [line for line in lines if "does nothing" in line]
    assert [name for name in NETWORKS if any(name in x for x in named)] == unused


@pytest.mark.parametrize(
    ("networks", "words"),
    [
        ("own_nets:wrong_size", "Pendulum|TanhGaussian"),
        ("own_nets:wrong_output", "TanhGaussian"),
        ("own_nets:classes", "instance"),
        ("own_nets:nothing", "Networks"),
        ("own_nets:failing", "my mistake"),
        ("own_nets:absent", "no absent"),
        ("nowhere:small", "nowhere"),
        ("small", "module:callable"),
        ("sys:exit", "own module"),
        (3, "Networks"),
        (own_nets.Critic(), "Networks"),
        ((VALUE.actor, VALUE.critic), "Networks"),
    ],
)
def test_networks_that_do_not_fit_are_refused_at_once(tmp_path, networks, words):
    with pytest.raises(UserError, match=words):
        train(tmp_path / "runs", "sac", ENV, networks=networks)
    assert not (tmp_path / "runs").exists()


def test_other_networks_than_the_runs_are_refused(tmp_path):
    run = train(tmp_path, "sac", ENV, networks=own_nets.small).directory
    ours = train(tmp_path / "ours", "sac", ENV).directory
    for path in (run, ours):
        with pytest.raises(UserError, match="leave it out"):
            jaxrl.resume(path, steps=500, networks=own_nets.wide, screen=False)
    (run / "config.yaml").write_text(
        (run / "config.yaml").read_text().replace("own_nets:small", "own_nets:wide")
    )
    with pytest.raises(UserError, match="shapes"):
        jaxrl.load(run)


def test_a_damaged_model_is_refused(tmp_path):
    run = train(tmp_path, "sac", ENV, networks=own_nets.small).directory
    (run / "models/last/act.npz").write_bytes(b"nothing")
    with pytest.raises(UserError, match="damaged"):
        jaxrl.load(run)


def test_networks_are_an_axis_of_a_grid(tmp_path):
    grid = jaxrl.Grid("nets").add("algo", "sac").add("env", ENV)
    grid.add("networks", ["own_nets:small", "own_nets:wide"])
    for name, value in small("sac").items():
        grid.add(name, value)
    names = [variant.name for variant in grid.runs(str(tmp_path))]
    assert names == ["nets_netown_nets-small_s0", "nets_netown_nets-wide_s0"]


def test_two_devices_train_networks_of_a_user(tmp_path):
    one, two = (
        train(tmp_path / str(n), "sac", ENV, networks=own_nets.small, devices=n)
        for n in (1, 2)
    )
    assert len(table(one.directory)) == len(table(two.directory))
    assert (two.directory / "models/last/act.npz").exists()


def test_videos_of_networks_without_a_name_are_refused(tmp_path):
    with pytest.raises(UserError, match="video_every"):
        train(tmp_path / "runs", "sac", ENV, networks=VALUE, video_every=1)
    assert not (tmp_path / "runs").exists()
