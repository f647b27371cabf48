"""What a machine can do to a run: full and read-only disks, removed directories, races.

Slow; `nox -s faults` runs them.
"""

import os
import shutil
import subprocess
import sys
import time

import pytest
from small_runs import jaxrl_command, small, table

from jaxrl.runs import checkpoint

pytestmark = pytest.mark.faults

CODE = """
from jaxrl.runs import checkpoint_writer
checkpoint_writer.MAX_TIME_SHARE = float("inf")
from jaxrl.cli.main import main
raise SystemExit(main())
"""


def start(algo, out, **changes):
    """A new run, with a checkpoint every epoch."""
    settings = small(algo, epochs=10_000, num_test_episodes=0, **changes)
    words = ["train", algo, "--env", "Pendulum-v1", "--out", out, "--exp_name", "x"]
    words += [f"--{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-c", CODE, *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True)


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_a_full_disk_stops_the_run_and_spares_what_was_saved(
    small_disk, tmp_path, algo
):
    process = start(algo, small_disk)
    printed, error = process.communicate(timeout=300)
    assert process.returncode == 1, error
    assert "Traceback" not in error
    assert "No space left" in error or "could not be saved" in error
    assert "results in" not in printed
    path = small_disk / "x" / "x_s0"
    rows = table(path)
    assert all(len(row) == len(rows[0]) and None not in row.values() for row in rows)
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    saved, _ = checkpoint.newest(copy)
    assert saved is not None
    done = jaxrl_command("resume", copy, "--steps", saved.content["env_steps"] + 64)
    assert done.returncode == 0, done.stderr


def test_a_read_only_disk_is_refused_at_once(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = jaxrl_command("train", "vpg", "--env", "Pendulum-v1", "--out", small_disk)
    assert done.returncode == 2
    assert "cannot write to" in done.stderr


def test_a_removed_directory_stops_the_run(tmp_path):
    process = start("vpg", tmp_path)
    path = tmp_path / "x" / "x_s0"
    for _ in range(600):
        if (path / "progress.csv").exists() and len(table(path)) > 3:
            break
        time.sleep(0.1)
    while path.exists() and process.poll() is None:  # it may be writing there
        shutil.rmtree(path, ignore_errors=True)
    printed, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in error
    assert "results in" not in printed


def test_of_many_into_one_directory_one_runs(tmp_path):
    for trial in range(50):
        out = tmp_path / str(trial)
        first, second = (start("vpg", out, seed=0) for _ in "ab")
        while first.poll() is None and second.poll() is None:
            time.sleep(0.02)
        loser, winner = (first, second) if second.poll() is None else (second, first)
        error = loser.communicate()[1]
        assert loser.returncode == 2, error
        assert "another process" in error or "holds a run already" in error
        path = out / "x" / "x_s0"
        while not (path / "progress.csv").exists() or len(table(path)) < 2:
            assert winner.poll() is None
            time.sleep(0.02)
        winner.terminate()
        winner.communicate()
        assert winner.returncode == 128 + 15
        assert os.listdir(out / "x") == ["x_s0"]
