"""The list of runs, and the check of the machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import train

import jaxrl
from jaxrl.cli import doctor
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.runs import directory, failures, reading, status
from jaxrl.runs.status import Status
from jaxrl.training import loop
from jaxrl.training import train as training


def listed(capsys, *words):
    assert main(["ls", *map(str, words), "--json"]) == 0
    return {one["run"]: one for one in json.loads(capsys.readouterr().out)}


def test_a_run_is_listed_with_its_state(tmp_path, monkeypatch, capsys):
    finished = train(tmp_path / "a", "ppo", "CartPole-v1").directory
    kwargs = {"env_kwargs": {"fault": "reward"}}
    with pytest.raises(FloatingPointError):
        train(tmp_path / "b", "ppo", "own_envs:Count-v0", **kwargs)
    monkeypatch.setattr(loop, "collect", stop)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "c", "ppo", "CartPole-v1")
    found = listed(capsys, tmp_path)
    states = {
        path.removeprefix(f"{tmp_path}/")[0]: x["state"] for path, x in found.items()
    }
    assert states == {"a": "finished", "b": "failed", "c": "interrupted"}
    one = found[str(finished)]
    returns = reading.record(finished).progress["AverageEpRet"]
    assert (one["steps"], one["total_steps"]) == (128, 128)
    assert one["last"] == returns[-1]
    assert one["best"] == max(returns)
    assert one["last5"] == pytest.approx(returns[-5:].mean())
    assert one["size"] > 1000
    with directory.locked(finished):
        assert listed(capsys, finished)[str(finished)]["state"] == "running"
    assert listed(capsys, finished)[str(finished)]["state"] == "finished"


def test_seed_2_is_listed_before_seed_10(tmp_path, capsys):
    for seed in (10, 2):
        train(tmp_path, "vpg", "CartPole-v1", seed=seed, exp_name="x")
    names = [Path(path).name for path in listed(capsys, tmp_path)]
    assert names == ["x_s2", "x_s10"]
    assert [run.directory.name for run in jaxrl.runs(tmp_path)] == names


def test_a_run_of_a_grid_that_failed_to_start_is_listed_too(tmp_path, capsys):
    group = tmp_path / "g" / "g_a"
    group.mkdir(parents=True)
    for seed in range(4):
        (group / f"g_a_s{seed}.yaml").write_text("seed: 0\n")
    error = RuntimeError("boom\nsecond line")
    for seed, ended in enumerate((UserError("x"), error, KeyboardInterrupt())):
        outcome = status.outcome_file(group / f"g_a_s{seed}")
        status.write(outcome, Status.from_error(ended))
    states = {str(group / f"g_a_s{seed}"): "failed" for seed in (0, 1)}
    for words in [tmp_path], [tmp_path / "g*", group]:
        found = listed(capsys, *words)
        assert {path: one["state"] for path, one in found.items()} == states
    reason = failures.failure_reason(group / "g_a_s1")
    assert reason == "RuntimeError: boom second line"
    started = train(tmp_path, "ppo", "CartPole-v1").directory
    assert [*listed(capsys, tmp_path)] == sorted([*states, str(started)])


def test_the_steps_of_a_run_do_not_exceed_its_total(tmp_path, capsys):
    """An on-policy run fills its last epoch; an off-policy run need not."""
    run = train(tmp_path, "ppo", "CartPole-v1", steps=100).directory
    one = listed(capsys, run)[str(run)]
    assert (one["steps"], one["total_steps"]) == (128, 128)
    run = train(tmp_path, "sac", "Pendulum-v1", steps=100).directory
    one = listed(capsys, run)[str(run)]
    assert (one["steps"], one["total_steps"]) == (100, 100)
    assert one["state"] == "finished"


def test_a_run_interrupted_in_its_first_epoch_shows_its_steps_and_age(tmp_path, capsys):
    def interrupt(under_way):
        collect(under_way)
        if under_way.setup.progress.env_steps == 20:
            signal.raise_signal(signal.SIGUSR1)

    collect = loop.collect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "collect", interrupt)
        run = train(tmp_path, "ppo", "CartPole-v1").directory
    old = time.time() - 7300
    for name in ("config.yaml", "progress.csv"):
        os.utime(run / name, (old, old))
    one = listed(capsys, run)[str(run)]
    assert (one["state"], one["steps"]) == ("interrupted", 20)
    assert one["age"] < 600
    known = reading.record(run).status
    assert (known.signal, known.exit_code) == ("SIGUSR1", 128 + signal.SIGUSR1)
    assert (known.attempt, known.total_steps) == (1, 128)
    training.resume(run, screen=False)
    assert listed(capsys, run)[str(run)]["state"] == "finished"
    assert reading.record(run).status.attempt == 2


def test_a_killed_run_is_recognised_by_its_status_and_its_lock(tmp_path, capsys):
    words = ["ppo", "--env", "CartPole-v1", "--out", str(tmp_path), "--exp_name", "x"]
    words += ["--steps_per_epoch", "64", "--minibatches", "1", "--epochs", "100000"]
    command = [sys.executable, "-m", "jaxrl", "train", *words]
    run = tmp_path / "x" / "x_s0"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while not (run / "progress.csv").exists():
            assert process.poll() is None
            time.sleep(0.05)
        known = reading.record(run).status
        assert (known.state, known.pid) == ("running", process.pid)
        assert listed(capsys, run)[str(run)]["state"] == "running"
        process.kill()
    assert listed(capsys, run)[str(run)]["state"] == "interrupted"
    assert reading.record(run).status.state == "running"  # it could not say more
    assert "killed" in failures.failure_reason(run)


def stop(_):
    raise KeyboardInterrupt


def test_a_name_cannot_write_to_the_terminal(tmp_path, capsys):
    path = tmp_path / "a\x1b[31m\nb"
    path.mkdir()
    (path / "config.yaml").write_text("{")
    assert main(["ls", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "a�[31m�b  damaged" in printed
    assert len(printed.splitlines()) == 2


def test_the_table_can_be_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["ls"]) == 0
    assert "no runs" in capsys.readouterr().out
    path = train("runs", "ppo", "CartPole-v1").directory
    (path / "config.yaml").rename(path / "kept.yaml")
    (path / "config.yaml").write_text("{")
    old = time.time() - 7300
    for name in ("config.yaml", "progress.csv", "status.json"):
        os.utime(path / name, (old, old))
    assert main(["ls"]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert "damaged" in row
    assert "2 h" in row
    (path / "kept.yaml").rename(path / "config.yaml")
    assert main(["ls", "runs/ppo*"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    heads = ["run", "state", "steps", "last", "last5", "best", "age", "size"]
    assert head.split() == heads
    assert row.split()[:3] == [str(path), "finished", "128/128"]
    assert main(["ls", "nowhere"]) == 2


def test_listing_does_not_disturb_a_run_that_starts(tmp_path):
    """Listing holds the lock for a moment, for which a new run waits."""
    path = tmp_path / "run"
    path.mkdir()
    code = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); "
    code += "fcntl.flock(f, fcntl.LOCK_SH); print('held', flush=True); time.sleep(0.1)"
    words = [sys.executable, "-c", code, str(path / directory.LOCK)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as looking:
        assert looking.stdout.readline() == "held\n"
        with directory.locked(path):
            assert looking.wait() == 0


def test_listing_needs_no_jax():
    code = "import jaxrl.cli.ls, sys; raise SystemExit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_doctor_tries_everything(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor.video, "choose_opengl", lambda: None)
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    marks = {line.split()[1]: line.split()[0] for line in printed.splitlines()}
    assert marks.pop("mpi") in ("ok", "--")
    assert marks == dict.fromkeys(
        ("versions", "devices", "rendering", "output", "self-test"), "ok"
    )
    assert not list(tmp_path.iterdir())


def test_the_doctor_says_what_is_broken_and_goes_on(tmp_path, monkeypatch, capsys):
    def broken():
        raise RuntimeError("no learning\nhere")

    monkeypatch.setattr(doctor, "self_test", broken)
    monkeypatch.setattr(doctor.video, "choose_opengl", lambda: None)
    file = tmp_path / "file"
    file.touch()
    assert main(["doctor", "--out", str(file / "runs")]) == 1
    printed = capsys.readouterr().out
    assert "NO  output" in printed
    assert re.search("NO  self-test .*no learning here", printed)
