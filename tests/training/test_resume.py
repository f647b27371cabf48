"""A run that is interrupted at any step and resumed equals one that was not."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import optax
import pytest
from small_runs import (
    Killed,
    always,
    assert_same,
    at_step,
    events,
    jaxrl_command,
    kill,
    signalled,
    small,
    table,
    train,
)

import jaxrl
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.runs import checkpoint, checkpoint_writer, directory
from jaxrl.runs.checkpoint_writer import CheckpointWriter
from jaxrl.training import session

ALGOS = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")


@pytest.mark.parametrize("algo", ALGOS)
def test_resume_after_signal_and_kill_reproduces_the_run(tmp_path, monkeypatch, algo):
    changes = {"epochs": 3, "num_envs": 2, "replay_size": 50}
    if algo in ("vpg", "trpo", "ppo"):
        changes.pop("replay_size")
        changes |= {"minibatches": 2, "num_test_episodes": 1} if algo == "ppo" else {}
    uninterrupted = train(tmp_path / "a", algo, "Pendulum-v1", **changes)
    monkeypatch.setattr(CheckpointWriter, "affordable", always)
    at_step(monkeypatch, 50, signalled)
    left = train(tmp_path / "b", algo, "Pendulum-v1", **changes)
    assert left.stopped_by == signal.SIGTERM
    assert len(left.history) < 2
    at_step(monkeypatch, 166, kill)
    with pytest.raises(Killed):
        jaxrl.resume(left.directory, screen=False)
    resumed = jaxrl.resume(left.directory, screen=False)
    assert resumed.stopped_by is None
    assert_same(resumed, uninterrupted)


def test_a_signal_saves_a_process_that_can_be_resumed(tmp_path):
    settings = small("sac", epochs=10_000, num_test_episodes=0)
    words = ["train", "sac", "--env", "Pendulum-v1", "--out", tmp_path]
    words += ["--exp_name", "x", *(f"--{k}={v}" for k, v in settings.items())]
    code = "from jaxrl.cli.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", code, *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    path = tmp_path / "x" / "x_s0"
    for _ in range(600):
        if (path / "progress.csv").exists() and len(table(path)) > 2:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGUSR1)
    printed = process.communicate(timeout=20)[0]
    assert process.returncode == 128 + signal.SIGUSR1
    assert "SIGUSR1" in printed
    rows = len(table(path))
    done = jaxrl_command("resume", path, "--steps", 60 * (rows + 1))
    assert done.returncode == 0, done.stderr
    assert f"jaxrl plot {path}" in done.stdout
    assert len(table(path)) == rows + 1


def test_resume_with_more_steps_reproduces_the_longer_run(tmp_path):
    longer = train(tmp_path / "a", "td3", "Pendulum-v1", steps=180)
    short = train(tmp_path / "b", "td3", "Pendulum-v1", steps=120)
    assert_same(jaxrl.resume(short.directory, 180, screen=False), longer)
    with pytest.raises(UserError, match="180"):
        jaxrl.resume(short.directory, 100, screen=False)


def test_a_run_is_resumed_by_a_path_through_its_parent(tmp_path):
    run = train(tmp_path, "ppo", "CartPole-v1", epochs=1)
    around = run.directory / ".." / run.directory.name
    steps = 2 * small("ppo")["steps_per_epoch"]
    assert len(jaxrl.resume(around, steps=steps).history) == 2


@pytest.mark.parametrize("step", [90, 150, 200])
def test_resume_reproduces_columns_that_appear_later(tmp_path, monkeypatch, step):
    def late(state, step):
        return {"z": step} if step > 60 else {}

    settings = small("sac", epochs=4, out=str(tmp_path / "a"))
    given = {"screen": False, "on_epoch": late}
    whole = jaxrl.train("sac", "Pendulum-v1", **given, **settings)
    monkeypatch.setattr(CheckpointWriter, "affordable", lambda *_: False)
    at_step(monkeypatch, 220, kill)  # after rows that no checkpoint holds
    at_step(monkeypatch, step, signalled)
    settings["out"] = str(tmp_path / "b")
    left = jaxrl.train("sac", "Pendulum-v1", **given, **settings)
    with pytest.raises(Killed):
        jaxrl.resume(left.directory, **given)
    resumed = jaxrl.resume(left.directory, **given)
    assert_same(resumed, whole)
    assert [row["z"] for row in resumed.history] == [None, 120, 180, 240]


def test_tensorboard_shows_every_epoch_once(tmp_path):
    short = train(tmp_path, "vpg", "CartPole-v1", steps=128)
    jaxrl.resume(short.directory, 256, screen=False)
    shown = []
    for event in events(short.directory):
        if event.HasField("session_log"):  # TensorBoard drops this step and later ones
            shown = [step for step in shown if step < event.step]
        tags = [value.tag for value in event.summary.value]
        shown += [event.step] if "AverageEpRet" in tags else []
    assert shown == [64, 128, 192, 256]


def test_resume_removes_models_of_later_steps(tmp_path, monkeypatch):
    at_step(monkeypatch, 200, kill)  # the only checkpoint is that of the signal
    monkeypatch.setattr(CheckpointWriter, "affordable", lambda *_: False)
    at_step(monkeypatch, 90, signalled)
    left = train(tmp_path, "sac", "Pendulum-v1", epochs=4)
    with pytest.raises(Killed):
        jaxrl.resume(left.directory, screen=False)
    models = left.directory / "models"
    steps = lambda: {p.name for p in models.iterdir()} - {"last", "best"}  # noqa: E731
    assert steps() == {"60", "120", "180"}
    jaxrl.resume(left.directory, 130, screen=False)
    assert steps() == {"60", "120", "130"}


def test_a_learning_rate_decays_to_the_new_end(tmp_path):
    short = train(tmp_path, "ppo", "CartPole-v1", steps=128)
    longer = jaxrl.resume(short.directory, 256, screen=False)
    rates = [row["LearningRate"] for row in longer.history]
    assert rates[0] > rates[1]
    assert rates[2] > rates[3] > 0


def test_resume_without_a_checkpoint_restarts_the_run(tmp_path, monkeypatch, capsys):
    uninterrupted = train(tmp_path / "a", "sac", "Pendulum-v1")
    at_step(monkeypatch, 7, kill)
    with pytest.raises(Killed):
        train(tmp_path / "b", "sac", "Pendulum-v1")
    (path,) = (tmp_path / "b").glob("*/*")
    assert_same(jaxrl.resume(path), uninterrupted)
    assert "no checkpoint" in capsys.readouterr().out


def test_a_restarted_run_keeps_its_settings_and_files_of_the_user(
    tmp_path, monkeypatch
):
    at_step(monkeypatch, 50, kill)  # before the first checkpoint
    with pytest.raises(Killed):
        train(tmp_path, "sac", "Pendulum-v1", checkpoint_every=0)
    (path,) = tmp_path.glob("*/*")
    (path / "notes.txt").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(session, "run", lambda *_, **__: kill(None))
        with pytest.raises(Killed):
            jaxrl.resume(path, screen=False)
    assert not (path / "progress.csv").exists()
    assert len(jaxrl.resume(path, screen=False).history) == 2
    assert (path / "notes.txt").read_text() == "mine"


def test_a_run_killed_while_extended_resumes_to_its_new_end(tmp_path, monkeypatch):
    one = train(tmp_path / "a", "ppo", "CartPole-v1", steps=128)
    uninterrupted = jaxrl.resume(one.directory, 256, screen=False)
    two = train(tmp_path / "b", "ppo", "CartPole-v1", steps=128)
    at_step(monkeypatch, 200, kill)
    with pytest.raises(Killed):
        jaxrl.resume(two.directory, 256, screen=False)
    assert_same(jaxrl.resume(two.directory, screen=False), uninterrupted)


def test_resume_leaves_a_finished_run_unchanged(tmp_path, capsys):
    done = train(tmp_path, "vpg", "Pendulum-v1")
    assert_same(jaxrl.resume(done.directory), done)
    assert "complete" in capsys.readouterr().out


def test_resume_notes_that_config_yaml_was_edited(tmp_path, capsys):
    done = train(tmp_path, "vpg", "Pendulum-v1")
    config = done.directory / "config.yaml"
    config.write_text(config.read_text().replace("gamma: 0.99", "gamma: 0.5"))
    assert_same(jaxrl.resume(done.directory), done)
    assert "config.yaml" in capsys.readouterr().out


def test_an_episode_that_cannot_be_replayed_is_reset_with_a_note(
    tmp_path, monkeypatch, capsys
):
    at_step(monkeypatch, 7, signalled)
    chance = {"env_kwargs": {"chance": True, "length": 50}}
    left = train(tmp_path, "ppo", "own_envs:Count-v0", **chance)
    result = jaxrl.resume(left.directory)
    assert "environment 0" in capsys.readouterr().out
    assert len(result.history) == 2


def test_rerun_repeats_a_run_and_accepts_changes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first = train("runs", "sac", "Pendulum-v1")
    assert main(["rerun", str(first.directory)]) == 0
    again = Path("runs/sac-Pendulum-v1-rerun/sac-Pendulum-v1-rerun_s0")
    assert table(again) == table(first.directory)
    assert main(["rerun", str(first.directory), "--seed", "4", "--gamma=0.9"]) == 0
    other = first.directory.with_name("sac-Pendulum-v1_s4")
    assert table(other) != table(first.directory)
    assert main(["rerun", str(first.directory), "--gama", "1"]) == 2
    assert "did you mean 'gamma'" in capsys.readouterr().err


# Damage


@pytest.fixture(scope="module")
def two_checkpoints(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointWriter, "affordable", always)
        return _two_checkpoints(tmp_path_factory)


def _two_checkpoints(tmp_path_factory):
    path = tmp_path_factory.mktemp("damage")
    run = {"epochs": 2, "checkpoint_every": 1, "steps_per_epoch": 60}
    result = train(path, "sac", "Pendulum-v1", **run)
    numbers = sorted(p.name for p in (result.directory / "checkpoints").iterdir())
    assert len(numbers) == 2
    return result.directory, numbers


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


DAMAGES = {
    "flipped": flip,
    "truncated": lambda file: os.truncate(file, file.stat().st_size // 2),
    "emptied": lambda file: os.truncate(file, 0),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_detected(two_checkpoints, tmp_path, damage):
    original, (_, newer) = two_checkpoints
    good, none = checkpoint.newest(original)
    assert not none
    assert good.content["env_steps"] == 120
    before = [p for p in original.rglob("*") if p.is_file()]
    files = [p for p in before if newer in p.parts]
    files += sorted((original / "replay").iterdir())[-1:]
    assert len(files) > 5
    for file in files:
        if not file.stat().st_size and damage != "deleted":
            continue
        copy = tmp_path / "copy"
        shutil.copytree(original, copy)
        DAMAGES[damage](copy / file.relative_to(original))
        saved, complaints = checkpoint.newest(copy)
        assert saved.content["env_steps"] == 60, file
        assert len(saved.rows) == 60
        unfinished = damage == "deleted" and file.name == checkpoint.MANIFEST
        assert unfinished or f"checkpoint {newer}" in complaints[0]
        shutil.rmtree(copy)


def test_resume_skips_a_damaged_checkpoint(two_checkpoints, tmp_path):
    original, (older, newer) = two_checkpoints
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    (copy / "checkpoints" / newer / checkpoint.MANIFEST).write_text("{bad")
    jaxrl.resume(copy, screen=False)
    saved, complaints = checkpoint.newest(copy)
    assert saved.content["env_steps"] == 120
    assert not complaints
    assert {p.name for p in (copy / "checkpoints").iterdir()} == {older, "3"}


def test_a_finished_run_is_extended_from_its_last_good_checkpoint(tmp_path):
    path = train(tmp_path, "td3", "Pendulum-v1", steps=60).directory
    jaxrl.resume(path, 120, screen=False)
    (path / "checkpoints" / "2" / checkpoint.MANIFEST).write_text("{bad")
    assert len(jaxrl.resume(path, 180, screen=False).history) == 3


@pytest.mark.parametrize("name", ["models", "replay", "tb", "checkpoints", "models/60"])
def test_a_link_out_of_the_run_directory_is_refused(two_checkpoints, tmp_path, name):
    copy, outside = tmp_path / "copy", tmp_path / "outside"
    shutil.copytree(two_checkpoints[0], copy)
    (copy / name).rename(outside)
    (copy / name).symlink_to(outside)
    before = set(outside.rglob("*"))
    with pytest.raises(UserError, match="is a link"):
        jaxrl.resume(copy, 600, screen=False)
    assert set(outside.rglob("*")) == before


def test_resume_with_only_damaged_checkpoints_changes_nothing(
    two_checkpoints, tmp_path
):
    copy = tmp_path / "copy"
    shutil.copytree(two_checkpoints[0], copy)
    for file in copy.glob("checkpoints/*/rest.json"):
        flip(file)
    before = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    with pytest.raises(UserError, match="checkpoint"):
        jaxrl.resume(copy, screen=False)
    after = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file()}
    after.pop(copy / directory.LOCK, None), before.pop(copy / directory.LOCK, None)
    assert after == before


def test_a_checkpoint_of_another_format_is_refused_in_a_sentence(
    two_checkpoints, tmp_path
):
    copy = tmp_path / "copy"
    shutil.copytree(two_checkpoints[0], copy)
    for file in copy.glob("checkpoints/*/rest.json"):
        rest = json.loads(file.read_text())
        del rest["format"]
        file.write_text(json.dumps(rest))
        manifest = file.with_name(checkpoint.MANIFEST)
        sums = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(sums | {file.name: checkpoint.checksum(file)}))
    with pytest.raises(UserError, match="format 1"):
        jaxrl.resume(copy, screen=False)


def test_a_manifest_cannot_point_outside_the_run(two_checkpoints, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(two_checkpoints[0], copy)
    secret = tmp_path / "secret.npy"
    np.save(secret, np.zeros((3, 9), np.float32))
    for file in copy.glob(f"checkpoints/*/{checkpoint.MANIFEST}"):
        sums = json.loads(file.read_text())
        sums["../../../secret.npy"] = checkpoint.checksum(secret)
        file.write_text(json.dumps(sums))
    saved, complaints = checkpoint.newest(copy)
    assert saved is None
    assert "outside the run" in complaints[0]


def test_old_checkpoints_and_rows_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(CheckpointWriter, "affordable", always)
    settings = {"epochs": 6, "replay_size": 100, "keep": 2, "num_test_episodes": 0}
    path = train(tmp_path, "sac", "Pendulum-v1", **settings).directory
    assert len(list((path / "checkpoints").iterdir())) == 2
    saved, _ = checkpoint.newest(path)
    assert saved.first <= 260
    assert saved.first + len(saved.rows) == 360
    names = {p.stem for p in (path / "replay").iterdir()}
    assert not any(int(name.split("-")[1]) <= 200 for name in names)


# Others in the same directory, and a full disk


def test_a_locked_directory_is_refused(tmp_path):
    path = tmp_path / "run"
    with (
        directory.locked(path),
        pytest.raises(UserError, match="another process"),
        directory.locked(path),
    ):
        raise AssertionError
    assert not path.exists()


def test_a_second_run_into_one_directory_is_refused(tmp_path):
    done = train(tmp_path, "vpg", "Pendulum-v1")
    before = table(done.directory)
    with pytest.raises(UserError, match=r"jaxrl resume .* overwrite"):
        train(tmp_path, "vpg", "Pendulum-v1", overwrite=False)
    with directory.locked(done.directory), pytest.raises(UserError, match="another"):
        train(tmp_path, "vpg", "Pendulum-v1", overwrite=True)
    assert table(done.directory) == before


def test_a_checkpoint_that_cannot_be_saved_stops_the_run(tmp_path, monkeypatch, capsys):
    def full(file, text):
        if file.name == checkpoint.MANIFEST and "/2/" in str(file):
            raise OSError(28, "No space left on device")
        write(file, text)

    write = checkpoint_writer.write_atomically
    monkeypatch.setattr(checkpoint_writer, "write_atomically", full)
    monkeypatch.setattr(CheckpointWriter, "affordable", always)
    settings = small("vpg", epochs=4, out=tmp_path, exp_name="x")
    words = [f"--{name}={value}" for name, value in settings.items()]
    assert main(["train", "vpg", "--env", "Pendulum-v1", *words]) == 1
    shown = capsys.readouterr()
    assert "checkpoint 2" in shown.err
    assert "No space left" in shown.err
    assert "results in" not in shown.out
    saved, _ = checkpoint.newest(tmp_path / "x" / "x_s0")
    assert saved.content["epoch"] == 1


# Not a number


@pytest.mark.parametrize("part", ["actor", "critic"])
def test_a_nan_in_the_parameters_stops_the_run(tmp_path, monkeypatch, part):
    def spoil(training):
        net = getattr(training.state, part)
        params = jax.tree.map(lambda x: x * np.nan, net.params)
        net = type(net)(params, net.opt_state)
        training.state = dataclasses.replace(training.state, **{part: net})
        training.setup.actor.set_state(training.state)

    at_step(monkeypatch, 100, spoil)
    with pytest.raises(FloatingPointError, match="not finite"):
        train(tmp_path, "sac", "Pendulum-v1", epochs=4)
    (path,) = tmp_path.glob("*/*")
    assert len(table(path)) == 1
    assert "nan" not in (path / "progress.csv").read_text()


@pytest.mark.parametrize("algo", ALGOS)
def test_a_gradient_that_is_not_finite_stops_the_run_at_once(
    tmp_path, monkeypatch, algo
):
    """It is that of an update's last step, whose loss was computed before."""
    on_policy = algo in ("vpg", "trpo", "ppo")
    descents, first_update = (3, 64) if on_policy else (20, 40)
    descents //= 2 if algo == "td3" else 1  # its actor waits
    changes = {"train_v_iters": descents} if on_policy else {}
    changes |= {"train_pi_iters": 0, "minibatches": 1} if algo == "ppo" else {}
    adam = optax.adam

    def spoiled(*arguments):
        """Adam whose gradients become infinite in the last descent of an update."""
        inner = adam(*arguments)

        def update(grads, state, params):
            state, made = state
            # The actor's loss would show it of the critics, which are a tuple.
            last = (made == descents - 1) & (not isinstance(params, tuple))
            bad = jax.numpy.where(last, np.inf, 0)
            grads = jax.tree.map(lambda x: x + bad, grads)
            updates, state = inner.update(grads, state, params)
            return updates, (state, made + 1)

        return optax.GradientTransformation(
            lambda params: (inner.init(params), jax.numpy.zeros((), int)), update
        )

    monkeypatch.setattr(optax, "adam", spoiled)
    jax.clear_caches()  # states made by the other Adam, before and after
    message = f"is not finite at step {first_update}$"
    with pytest.raises(FloatingPointError, match=message):
        train(tmp_path, algo, "Pendulum-v1", epochs=4, **changes)
    jax.clear_caches()
    (path,) = tmp_path.glob("*/*")
    assert table(path) == []


@pytest.mark.parametrize("odd", ["4096", 0, 2.5, True])
def test_a_total_that_is_no_whole_number_is_refused(tmp_path, odd):
    with pytest.raises(ValueError, match="steps"):
        jaxrl.resume(tmp_path, odd)
