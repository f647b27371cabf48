"""A user's algorithm in a file: written, checked, trained, resumed, refused."""

import importlib.util
import os
import shutil
import sys

import numpy as np
import pytest
import yaml
from own_algorithms import FAULTS, LINEAR, change, copy, faulty, module
from small_runs import (
    Killed,
    always,
    assert_same,
    at_step,
    jaxrl_command,
    kill,
    small,
    table,
    train,
)

import jaxrl
from jaxrl import algos, contracts
from jaxrl.cli import check
from jaxrl.cli.main import main
from jaxrl.contracts import Contract
from jaxrl.errors import UserError
from jaxrl.experiments import search_file
from jaxrl.runs import arrays, spec
from jaxrl.runs.checkpoint_writer import CheckpointWriter

ENV = "Pendulum-v1"
FLAGS = [f"--{k}={v}" for k, v in small("sac").items()]


def imported(path):
    """As a user's program imports it."""
    found = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = loaded
    found.loader.exec_module(loaded)
    return loaded


# new


@pytest.mark.parametrize("algo", ["sac", "ppo"])
def test_a_copy_trains_bit_for_bit_as_the_original(tmp_path, algo):
    env = ENV if algo == "sac" else "CartPole-v1"
    path = copy(tmp_path, algo, "my_copy.py")
    original = train(tmp_path, algo, env)
    copied = jaxrl.train(path, env, out=str(tmp_path), screen=False, **small(algo))
    assert copied.directory.parent.name == f"my-copy-{env}"
    assert_same(original, copied)
    one, two = (x.directory / "models/last/policy.npz" for x in (original, copied))
    for name, value in np.load(one).items():
        assert np.array_equal(value, np.load(two)[name])


@pytest.mark.parametrize("name", algos.NAMES)
def test_a_copy_has_the_settings_of_the_original(tmp_path, name):
    path = copy(tmp_path, name)
    assert spec.known_settings(str(path)) == spec.known_settings(name)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["my_sac.py"], "--from"),
        (["my_sac.py", "--from", "dqn"], "vpg"),
        (["my_sac.txt", "--from", "sac"], ".py"),
        (["nowhere/my_sac.py", "--from", "sac"], "nowhere"),
        (["there.py", "--from", "sac"], "exists"),
    ],
)
def test_new_refuses_what_it_cannot_write(tmp_path, monkeypatch, capsys, words, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.py").write_text("mine")
    assert main(["new", *words]) == 2
    assert named in capsys.readouterr().err
    assert (tmp_path / "there.py").read_text() == "mine"
    assert os.listdir(tmp_path) == ["there.py"]


# check


@pytest.mark.parametrize("fault", FAULTS)
def test_a_contract_finds_each_fault(tmp_path, fault):
    path, name = faulty(tmp_path, fault)
    algo = module(path)
    with pytest.raises(AssertionError):
        contracts.contracts(algo)[name].check(algo)


def test_check_prints_a_line_for_each_contract(tmp_path, monkeypatch, capsys):
    def fails(algo):
        raise AssertionError("the reason")

    few = {"good": Contract(lambda algo: None, ""), "bad": Contract(fails, "the hint")}
    monkeypatch.setattr(contracts, "contracts", lambda algo: few)
    monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"])
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    path = copy(tmp_path)
    assert check.main([str(path)]) == 1
    first, second, third, *_ = capsys.readouterr().out.splitlines()[-4:]
    assert "good" in first
    assert "bad" in second
    assert "the reason" in second
    assert "the hint" in third
    del few["bad"]
    assert check.main([str(path)]) == 0


@pytest.mark.examples  # as a user runs it, for most of a minute
def test_the_command_finds_a_missing_pmean(tmp_path):
    path, name = faulty(tmp_path, "pmean")
    done = jaxrl_command("check", path)
    assert done.returncode == 1, done.stderr
    failed = [line for line in done.stdout.splitlines() if "FAILED" in line]
    assert len(failed) == 1
    assert name in failed[0]


# Settings


def test_settings_of_a_file_are_flags_without_importing_it(tmp_path, capsys):
    path = copy(tmp_path)
    change(
        path,
        "    tau: Fraction",
        '    beta: Positive = 0.5\n    """Weight of my new term."""\n    tau: Fraction',
    )
    path.write_text(path.read_text() + "\nraise SystemExit('imported')\n")
    assert main(["train", str(path), "--help"]) == 0
    out = capsys.readouterr().out
    assert "--beta" in out
    assert "Weight of my new term." in out


COMPUTED = """
import dataclasses
from typing import Annotated
from jaxrl import settings
from jaxrl.algos.sac import Config as Base, State, init, act, update
from jaxrl.types import OffPolicy
DATA = OffPolicy(**{"batch_size": 32})
Half = Annotated[float, settings.Range(0, 0.5)]

@settings.pytree
class Config(Base):
    beta: Half = 1 / 4
    \"\"\"Mine.\"\"\"
"""


def test_inherited_and_computed_settings_are_known_by_importing(tmp_path):
    path = tmp_path / "computed.py"
    path.write_text(COMPUTED)
    known = spec.known_settings(str(path))
    assert known["beta"].default == 0.25
    assert known["beta"].help == "Mine."
    assert known["batch_size"].default == 32
    assert known["gamma"].default == 0.99
    with pytest.raises(UserError, match=r"beta.*0\.5"):
        spec.make(str(path), ENV, {"beta": 0.7})
    with pytest.raises(ValueError, match="import"):
        spec.known_settings(str(path), execute=False)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("beta: complex = 1j", "complex"),
        ("beta: Fraction = 2.0", "2.0"),
        ("beta: float", "default"),
        ("seed: int = 0", "rename"),
        ("batch_size: int = 0", "rename"),
    ],
)
def test_a_setting_that_cannot_be_one_is_refused_with_its_line(tmp_path, line, words):
    path = copy(tmp_path)
    change(path, "    tau: Fraction", f"    {line}\n    tau: Fraction")
    number = path.read_text().splitlines().index(f"    {line}") + 1
    with pytest.raises(UserError, match=words) as refused:
        spec.make(str(path), ENV, {})
    assert f"line {number}" in str(refused.value)
    assert line.partition(":")[0] in str(refused.value)


# Refused before anything is written


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def init(:\n", "line 1"),
        ("x = 1\nimport nowhere\n", "line 2"),
        ("x = 1\n", "does not define"),
    ],
)
def test_a_file_that_is_no_algorithm_is_refused(tmp_path, text, words):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    with pytest.raises(UserError, match=words):
        jaxrl.train(str(path), ENV, out=str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("DATA = OffPolicy()", "DATA = 3", "DATA is 3"),
        ("def act(state: State, obs", "def act(obs", "act"),
        ("pmean: Pmean = identity\n", "mean: Pmean = identity\n", "pmean"),
        ("    return state, info", "    return state, info | {'EpRet': 1.0}", "EpRet"),
        ("    return state, info", "    return state", "metrics.* State"),
        ("    return state, info", "    return state, list(info)", "metrics"),
    ],
)
def test_wrong_forms_of_the_six_names_are_refused(tmp_path, old, new, words):
    path = copy(tmp_path)
    change(path, old, new)
    with pytest.raises(UserError, match=words):
        train(tmp_path / "runs", str(path), ENV, **small("sac"))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("env", ["CartPole-v1", "phys2d/CartPole-v1"])
@pytest.mark.parametrize(
    ("name", "words"), [("update", "metrics"), ("act", "act"), ("init", "config")]
)
def test_a_function_that_returns_nothing_is_refused(tmp_path, env, name, words):
    path = copy(tmp_path, "ppo")
    parameters = {
        "update": "state, batch, pmean=identity",
        "act": "state, obs, key=None",
        "init": "key, spec, config=Config(), networks=None",
    }
    with path.open("a") as file:
        file.write(f"\n\ndef {name}({parameters[name]}): ...\n")
    out = tmp_path / "runs"
    with pytest.raises(UserError, match=words):
        jaxrl.train(path, env, out=str(out), screen=False, **small("ppo"))
    assert not out.exists()


def test_a_missing_file_and_other_kinds_of_values_are_refused(tmp_path):
    for algo in ("./nowhere.py", tmp_path / "nowhere.py"):
        with pytest.raises(UserError, match=r"nowhere\.py"):
            jaxrl.train(algo, ENV)
    for algo in (None, 3, type(sys)("notebook")):
        with pytest.raises(UserError, match=r"\.py"):
            jaxrl.train(algo, ENV)


# From Python


def test_a_mistake_in_the_command_names_no_file_of_settings(tmp_path, capsys):
    missing = tmp_path / "missing.py"
    assert main(["train", str(missing), "--env", "Pendulum-v1"]) == 2
    assert capsys.readouterr().err.startswith("jaxrl: there is no file")


def test_a_module_trains_and_its_path_is_recorded(tmp_path):
    mine = imported(copy(tmp_path, name="mine_module.py"))
    result = train(tmp_path, mine, ENV, **small("sac"))
    assert type(result.state) is mine.State
    config = yaml.safe_load((result.directory / "config.yaml").read_text())
    assert config["algo"] == mine.__file__
    assert len(config["algo_sha256"]) == 64
    assert spec.make(algos.sac, ENV, {}).algo == "sac"


def test_a_module_whose_file_has_changed_is_refused(tmp_path):
    path = copy(tmp_path, name="mine_stale.py")
    mine = imported(path)
    change(path, "* log_prob - q)", "* log_prob - 2 * q)")
    assert spec.make(mine, ENV, {})  # of a function that is not called by the library
    change(path, "    return state, info", "    return state, dict(info)")
    with pytest.raises(UserError, match="reload"):
        spec.make(mine, ENV, {})


# Resume


def killed(tmp_path, monkeypatch, path, **changes):
    monkeypatch.setattr(CheckpointWriter, "affordable", always)
    at_step(monkeypatch, 90, kill)
    with pytest.raises(Killed):
        train(tmp_path, str(path), ENV, **small("sac"), **changes)
    return tmp_path / f"{path.stem.replace('_', '-')}-{ENV}"


def test_a_killed_run_of_a_file_resumes_exactly(tmp_path, monkeypatch):
    path = copy(tmp_path)
    change(path, "* log_prob - q)", "* log_prob - 0.9 * q)")
    whole = train(tmp_path / "whole", str(path), ENV, **small("sac"))
    run = killed(tmp_path, monkeypatch, path) / f"my-sac-{ENV}_s0"
    monkeypatch.chdir("/")
    assert_same(whole, jaxrl.resume(run, screen=False))


def test_resume_refuses_a_changed_file_unless_asked(tmp_path, monkeypatch, capsys):
    path = copy(tmp_path)
    run = killed(tmp_path, monkeypatch, path) / f"my-sac-{ENV}_s0"
    before = yaml.safe_load((run / "config.yaml").read_text())["algo_sha256"]
    rows = table(run)
    change(path, "* log_prob - q)", "* log_prob - 0.9 * q)")
    with pytest.raises(UserError, match="changed_code=True") as refused:
        jaxrl.resume(run, screen=False)
    assert before[:12] in str(refused.value)
    assert table(run) == rows
    assert main(["resume", str(run), "--changed-code"]) == 0
    assert str(path) in capsys.readouterr().out.splitlines()[0]
    now = yaml.safe_load((run / "config.yaml").read_text())["algo_sha256"]
    assert now != before
    jaxrl.resume(run, screen=False)  # as it is now, without being asked again
    path.unlink()
    with pytest.raises(UserError, match="missing"):
        jaxrl.resume(run, screen=False)


def test_files_that_came_with_a_run_are_not_executed(tmp_path, monkeypatch, capsys):
    path = copy(tmp_path)
    run = train(tmp_path, str(path), ENV, **small("sac")).directory
    config = yaml.safe_load((run / "config.yaml").read_text())
    evil = "raise SystemExit('executed')\n"
    for place, named in [(run / "x.py", run / "x.py"), (tmp_path / "y.py", "y.py")]:
        place.write_text(evil)
        for file in [run / "config.yaml", *run.glob("checkpoints/*/config.yaml")]:
            file.write_text(yaml.safe_dump(config | {"algo": str(named)}))
        monkeypatch.chdir(tmp_path)
        for command in ("resume", "rerun"):
            assert main([command, str(run), "--steps", "500"]) == 2
            assert "not run" in capsys.readouterr().err


def test_looking_at_a_run_does_not_execute_its_algorithm(tmp_path, capsys):
    path = copy(tmp_path)
    run = train(tmp_path, str(path), ENV, **small("sac")).directory
    path.write_text("raise SystemExit('executed')\n")
    out = str(tmp_path / "x")
    for words in (
        ["ls", str(run)],
        ["plot", str(run), "-o", f"{out}.png"],
        ["report", str(run), "-o", f"{out}.html"],
        ["eval", str(run), "--episodes", "1", "--stochastic"],
        ["export", str(run), "-o", f"{out}.npz"],
        ["rerun", str(run), "--help"],
    ):
        assert main(words) == 0, capsys.readouterr().err
    assert "my_sac" in capsys.readouterr().out


# Its own way to act


def test_a_changed_act_is_used_and_played_only_if_named(tmp_path, capsys):
    path = copy(tmp_path)
    old = "    return dist.mode() if key is None else dist.sample(key)"
    change(
        path, old, "    return 0.5 * dist.mode() if key is None else dist.sample(key)"
    )
    result = train(tmp_path, str(path), ENV, **small("sac"))
    run = result.directory
    assert main(["eval", str(run), "--episodes", "1"]) == 2
    assert "--algo" in capsys.readouterr().err
    assert main(["export", str(run), "-o", str(tmp_path / "x.npz")]) == 2
    assert "NumPy" in capsys.readouterr().err
    assert main(["eval", str(run), "--episodes", "1", "--algo", str(path)]) == 0
    policy, env = jaxrl.load(run, algo=path)
    obs = np.ones((4, env.observation_space.shape[0]), np.float32)
    action = module(path).act(result.state, obs)
    np.testing.assert_allclose(policy(obs), 2 * action, rtol=1e-5)  # bounds of ±2
    assert policy(obs[0], np.random.default_rng(0)).shape == (1,)


def test_an_act_that_only_explores_otherwise_is_played_greedily(tmp_path, capsys):
    path = copy(tmp_path)
    old = "    return dist.mode() if key is None else dist.sample(key)"
    change(
        path, old, "    return dist.mode() if key is None else 0.5 * dist.sample(key)"
    )
    run = train(tmp_path, str(path), ENV, **small("sac")).directory
    assert main(["eval", str(run), "--episodes", "1"]) == 0
    assert main(["eval", str(run), "--episodes", "1", "--stochastic"]) == 2
    assert "--algo" in capsys.readouterr().err


def test_a_state_of_another_form_trains_resumes_and_is_played(tmp_path, monkeypatch):
    path = tmp_path / "linear.py"
    path.write_text(LINEAR)
    settings = {"epochs": 3, "rate": 0.2, "screen": False, "num_test_episodes": 1}
    whole = jaxrl.train(path, ENV, out=str(tmp_path / "whole"), **settings)
    monkeypatch.setattr(CheckpointWriter, "affordable", always)
    at_step(monkeypatch, 100, kill)
    with pytest.raises(Killed):
        jaxrl.train(path, ENV, out=str(tmp_path), **settings)
    run = tmp_path / f"linear-{ENV}" / f"linear-{ENV}_s0"
    assert_same(whole, jaxrl.resume(run, screen=False))
    with np.load(run / "models/last/act.npz") as saved:
        assert [x.shape for x in saved.values()] == [(), (3, 1)]  # of what act reads
    policy, _ = jaxrl.load(run, algo=module(path))
    obs = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(policy(obs), 2 * module(path).act(whole.state, obs))
    with pytest.raises(UserError, match="NumPy"):
        policy.save(tmp_path / "x.npz")


# Many runs


def test_a_search_tries_the_settings_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "linear.py"
    path.write_text(LINEAR)
    text = f"algo: ./linear.py\nenv: {ENV}\nspace: {{rate: {{uniform: [0.1, 0.2]}}}}\n"
    (tmp_path / "find.yaml").write_text(text)
    found = search_file.read("find.yaml")
    found.check()
    variant = found.variant(0, {"rate": 0.15})
    assert variant.settings["algo"] == str(path)  # wherever its process is started
    assert variant.run.config.rate == 0.15
    wrong = text.replace("rate", "rat")
    (tmp_path / "wrong.yaml").write_text(wrong)
    with pytest.raises(UserError, match="'rate'"):
        search_file.read("wrong.yaml")


def test_a_grid_runs_files_beside_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = copy(tmp_path)
    change(
        path,
        "    tau: Fraction",
        "    sizes: Widths = (8,)\n    tau: Fraction",
    )
    grid = {"name": "both", "algo": ["sac", "./my_sac.py"], "env": ENV}
    (tmp_path / "both.yaml").write_text(yaml.safe_dump(grid | small("sac")))
    assert main(["grid", "both.yaml", "--jobs", "1"]) == 0
    runs = sorted(tmp_path.glob("runs/both/*/*_s0"))
    assert [run.name for run in runs] == ["both_algmy_sac_s0", "both_algsac_s0"]
    assert table(runs[0]) == table(runs[1])
    assert main(["grid", "both.yaml", "--dry-run"]) == 0
    change(path, "* log_prob - q)", "* log_prob - 0.9 * q)")
    assert main(["grid", "both.yaml"]) == 2
    assert "algo_sha256" in capsys.readouterr().err
    mine = jaxrl.Grid("mine").add("algo", path).add("sizes", [[8], [16, 16]])
    mine.add("env", ENV)
    assert [x["sizes"] for x in mine.variants()] == [(8,), (16, 16)]
    shutil.rmtree(tmp_path / "runs")
    words = ["./my_sac.py", "--env", ENV, "--sizes", "8", "16,16", "--dry-run"]
    assert main(["grid", *words]) == 0


def test_a_grid_names_what_is_wrong_with_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    copy(tmp_path)
    text = f"algo: [./my_sac.py, ./nowhere.py]\nenv: {ENV}\ngama: 0.9\n"
    (tmp_path / "wrong.yaml").write_text(text)
    assert main(["grid", "wrong.yaml"]) == 2
    said = capsys.readouterr().err
    assert "nowhere.py" in said
    assert "'gamma'" in said


def test_two_devices_and_a_rerun_by_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copy(tmp_path)
    words = ["./my_sac.py", "--env", ENV, "--out", ".", *FLAGS, "--devices", "2"]
    assert main(["train", *words, "--exp_name", "two"]) == 0
    assert main(["train", "sac", *words[1:], "--exp_name", "ours"]) == 0
    two, ours = tmp_path / "two/two_s0", tmp_path / "ours/ours_s0"
    assert table(two) == table(ours)
    assert main(["rerun", str(two), "--seed", "5", "--gamma", "0.9"]) == 0
    assert len(table(tmp_path / "two/two_s5")) == len(table(two))


def test_states_of_users_are_flattened_by_name():
    assert arrays.names({"a": np.ones(1), "b": [np.ones(2)]}) == ["['a']", "['b'][0]"]
