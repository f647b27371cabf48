"""`jaxrl verify`: a run that is repeated is identical, or what differs is named."""

import hashlib
import os

import numpy as np
import pytest
import yaml
from small_runs import jaxrl_command, train

import jaxrl
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.runs import comparison, reading

COUNT = "own_envs:Count-v0"


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    monkeypatch.setenv("NPROC", os.environ.get("NPROC", "1"))


@pytest.fixture
def run(tmp_path):
    return train(tmp_path, "ppo", COUNT, epochs=3).directory


def content(directory):
    """Every file with its hash and the time of its last change."""
    return {
        str(file): (hashlib.sha256(file.read_bytes()).digest(), file.stat().st_mtime_ns)
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


def verify(capsys, *words):
    capsys.readouterr()
    code = main(["verify", *map(str, words)])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def edit(file, change):
    lines = file.read_text().split("\n")
    change(lines)
    file.write_text("\n".join(lines))


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_a_repeated_run_is_identical_and_nothing_of_it_changes(algo, tmp_path, capsys):
    env = COUNT if algo == "ppo" else "Pendulum-v1"
    run = train(tmp_path, algo, env).directory
    before = content(tmp_path)
    code, printed = verify(capsys, run)
    assert code == 0, printed
    assert "identical" in printed
    assert "state" in printed  # the run is complete, so its whole state is compared
    assert content(tmp_path) == before


def test_the_first_cell_that_differs_is_named(run, capsys):
    header = (run / "progress.csv").read_text().split("\n")[0].split(",")

    def change(lines):
        cells = lines[2].split(",")
        cells[header.index("LossPi")] = "0.125"
        lines[2] = ",".join(cells)

    edit(run / "progress.csv", change)
    code, printed = verify(capsys, run)
    assert code == 1
    assert "LossPi in epoch 2 is 0.125" in printed
    assert verify(capsys, run, "--epochs", 1)[0] == 0


def test_other_versions_are_named_where_a_run_differs(run, capsys):
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["machine"]["versions"]["jax"] = "0.0.1"
    config["seed"] = 7
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    code, printed = verify(capsys, run)
    assert code == 1
    assert "jax: 0.0.1 there" in printed


def test_a_policy_that_differs_is_found(run, capsys):
    (model, *_) = sorted(
        path for path in (run / "models").iterdir() if path.name.isdecimal()
    )
    arrays = dict(np.load(model / "policy.npz"))
    arrays["bias_0"] = arrays["bias_0"] + 1
    np.savez(model / "policy.npz", **arrays)
    code, printed = verify(capsys, run)
    assert code == 1
    assert f"policy at step {model.name}" in printed


def test_a_settings_file_decides_neither_where_nor_what_is_written(run, capsys):
    config = yaml.safe_load((run / "config.yaml").read_text())
    elsewhere = run.parent / "elsewhere"
    config |= {"out": str(elsewhere), "overwrite": True, "wandb": True}
    config |= {"video_every": 1}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    before = content(run.parent)
    code, printed = verify(capsys, run, "--epochs", 1)
    assert code == 0, printed
    assert content(run.parent) == before
    assert not elsewhere.exists()


def test_a_run_that_was_made_longer_verifies_up_to_there(tmp_path, capsys):
    short = train(tmp_path, "ppo", COUNT, lr_decay=1.0, epochs=2)
    jaxrl.resume(short.directory, steps=64 * 4, screen=False)
    record = reading.record(short.directory)
    assert comparison.end_of_first_part(record) == (128, 128)
    code, printed = verify(capsys, short.directory)
    assert code == 0, printed
    assert "2 epochs" in printed
    code, printed = verify(capsys, short.directory, "--epochs", 3)
    assert code == 2
    assert "longer" in printed


def test_columns_of_a_users_own_are_not_compared(tmp_path, capsys):
    run = jaxrl.train(
        "ppo",
        COUNT,
        out=str(tmp_path),
        steps_per_epoch=64,
        epochs=2,
        hidden=(8,),
        screen=False,
        on_epoch=lambda state, step: {"my/metric": step},
    ).directory
    code, printed = verify(capsys, run)
    assert code == 0, printed
    assert "my/metric" in printed


def test_several_processes_are_started_again(tmp_path):
    words = ["ppo", "--env", "CartPole-v1", "--num_procs", 2, "--out", tmp_path]
    words += ["--steps_per_epoch", 128, "--epochs", 2, "--hidden", 8]
    done = jaxrl_command("train", *words, "--exp_name", "two")
    assert done.returncode == 0, done.stderr
    done = jaxrl_command("verify", tmp_path / "two" / "two_s0")
    assert done.returncode == 0, done.stderr
    assert "identical" in done.stdout


def test_what_cannot_be_verified_has_an_exit_code_of_its_own(run, tmp_path, capsys):
    assert verify(capsys, tmp_path / "nothing")[0] == 2
    assert verify(capsys, run, "--epochs", 4)[0] == 2
    assert verify(capsys, run, "--epochs", 0)[0] == 2
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace(COUNT, "no_such_module:Count-v0"))
    code, printed = verify(capsys, run)
    assert code == 2
    assert "no_such_module" in printed
    (run / "config.yaml").write_text(config)
    (run / "progress.csv").unlink()
    code, printed = verify(capsys, run)
    assert code == 2
    assert "no finished epoch" in printed


def test_an_environment_that_only_a_program_has_cannot_be_verified(tmp_path, capsys):
    import gymnasium as gym

    settings = {"out": str(tmp_path), "exp_name": "own", "hidden": (8,), "epochs": 1}
    settings |= {"steps_per_epoch": 64, "screen": False}
    run = jaxrl.train("ppo", lambda: gym.make("CartPole-v1"), **settings).directory
    code, printed = verify(capsys, run)
    assert code == 2
    assert "from Python" in printed
    assert "imported" not in printed


def test_a_log_of_another_program_cannot_be_verified(tmp_path, capsys):
    with jaxrl.Logger(tmp_path / "mine", config={"lr": 1}, screen=False) as log:
        log.store(EpRet=[1.0])
        log.dump(step=3)
    code, printed = verify(capsys, tmp_path / "mine")
    assert code == 2
    assert "logged by" in printed


def test_epochs_that_were_not_repeated_are_no_verification(run, tmp_path):
    record = reading.record(run)
    short = train(tmp_path, "ppo", COUNT, epochs=2, exp_name="short").directory
    with pytest.raises(UserError, match="2 of 3"):
        comparison.compare(record, reading.record(short), 3)
