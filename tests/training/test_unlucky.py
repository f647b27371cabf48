"""A run on an unlucky machine, and what is left of one that was stopped."""

import os
import resource
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from small_runs import Killed, at_step, kill, small, table, train

import jaxrl
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import reading
from jaxrl.runs.checkpoint import Saved
from jaxrl.runs.checkpoint_writer import CheckpointWriter
from jaxrl.show import agent
from jaxrl.training.session import Result


def train_command(out, **environment):
    words = ["train", "ppo", "--env", "CartPole-v1", "--out", str(out)]
    words += [f"--{name}={value}" for name, value in small("ppo").items()]
    return subprocess.run(
        [sys.executable, "-m", "jaxrl", *words, "--exp_name=x", "--minibatches=1"],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )


def test_the_first_epoch_ends_with_a_checkpoint(tmp_path, monkeypatch):
    at_step(monkeypatch, 64, kill)
    with pytest.raises(Killed):
        train(tmp_path, "vpg", "Pendulum-v1", exp_name="x")
    assert reading.saved_checkpoints(tmp_path / "x" / "x_s0") == [1]


def test_later_checkpoints_take_a_small_share_of_the_time(tmp_path):
    writer = CheckpointWriter(tmp_path, 2, None)
    assert writer.affordable(0.0)
    writer.save(Saved({"env_steps": 1, "state": np.zeros(1000)}, "", ""))
    writer.wait()
    assert not writer.affordable(0.0)
    assert writer.affordable(10_000.0)
    writer.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_a_run_that_is_stopped_in_its_first_epoch_can_be_listed_and_played(
    tmp_path, monkeypatch, capsys, number
):
    at_step(monkeypatch, 40, lambda _: os.kill(os.getpid(), number))
    left = train(tmp_path, "ppo", "CartPole-v1")
    assert left.stopped_by is number
    assert number.name in repr(left)
    status = reading.record(left.directory).status
    assert (status.state, status.step) == ("interrupted", 41)
    assert "saved" in status.reason
    assert main(["ls", str(left.directory)]) == 0
    assert "41/128" in capsys.readouterr().out
    policy, env = agent.load(left.directory, "last")
    assert env.action_space.contains(policy(env.reset(seed=0)[0]))


def test_a_hangup_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.signal is None
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("algo", ["vpg", "sac"])
@pytest.mark.parametrize("made_again", [False, True])
def test_a_removed_directory_is_noticed_within_the_epoch(tmp_path, algo, made_again):
    steps, path = [], tmp_path / "x" / "x_s0"

    def remove(state, step):
        steps.append(step)
        shutil.rmtree(path)
        if made_again:
            path.mkdir()
            (path / "progress.csv").touch()

    settings = small(algo) | {"epochs": 4, "checkpoint_every": 0}
    with pytest.raises(OSError, match="removed"):
        jaxrl.train(
            algo,
            "Pendulum-v1",
            **settings,
            exp_name="x",
            out=str(tmp_path),
            screen=False,
            on_epoch=remove,
        )
    assert len(steps) == 1


def test_a_removed_directory_is_not_made_again_by_a_checkpoint(tmp_path, monkeypatch):
    def remove(_):
        shutil.rmtree(tmp_path / "x")
        os.kill(os.getpid(), signal.SIGTERM)

    at_step(monkeypatch, 10, remove)
    with pytest.raises(OSError, match="removed"):
        train(tmp_path, "vpg", "Pendulum-v1", exp_name="x")
    assert not (tmp_path / "x").exists()


def test_a_full_disk_names_the_file_what_is_saved_and_how_to_continue(tmp_path):
    path = tmp_path / "x" / "x_s0"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(state, step):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))

    first = train(tmp_path, "vpg", "Pendulum-v1", exp_name="x", epochs=1)
    try:
        with pytest.raises(OSError, match=r"progress\.csv.*step 64 .*resume") as error:
            jaxrl.resume(first.directory, 256, screen=False, on_epoch=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(path) in str(error.value)
    assert len(table(jaxrl.resume(path, 256, screen=False).directory)) == 4


def test_a_platform_that_is_absent_is_refused_in_a_sentence(tmp_path):
    done = train_command(tmp_path, JAX_PLATFORMS="cuda")
    assert done.returncode == 2
    assert "cuda" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_damaged_compiled_program_is_replaced(tmp_path):
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert train_command(tmp_path / "a", **cache).returncode == 0
    programs = sorted(tmp_path.glob("cache/jaxrl/xla/*-cache"))
    assert programs
    for file in programs:
        file.write_bytes(file.read_bytes()[:100])
    done = train_command(tmp_path / "b", **cache)
    assert (done.returncode, done.stderr) == (0, "")
    # One that compiles quickly is kept or not by the load of the machine.
    sizes = [file.stat().st_size for file in programs if file.exists()]
    assert sizes
    assert min(sizes) > 100


def test_results_and_policies_are_short_in_a_notebook(tmp_path):
    result = train(tmp_path, "ppo", "CartPole-v1")
    assert len(repr(result)) < 200 + len(str(result.directory))
    assert "128" in repr(result)
    assert str(result.directory) in repr(result)
    assert "directory" in repr(Result(None, [], tmp_path))
    policy, _ = jaxrl.load(result.directory)
    assert "4 -> 8 -> 2" in repr(policy)
    assert len(repr(policy)) < 100


def test_python_is_refused_by_its_arguments_and_not_by_flags(tmp_path):
    settings = {"out": str(tmp_path), "exp_name": "x", "screen": False}
    result = jaxrl.train("ppo", "CartPole-v1", **small("ppo"), **settings)
    with pytest.raises(UserError, match="overwrite=True") as error:
        jaxrl.train("ppo", "CartPole-v1", **small("ppo"), **settings)
    assert "--" not in str(error.value)
    with pytest.raises(UserError, match="steps=") as error:
        jaxrl.resume(result.directory, steps=64)
    assert "--" not in str(error.value)
