"""Small grids for tests, from Python and as commands."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import table

from jaxrl.experiments.grid import Grid

TESTS = Path(__file__).parent
TINY = {"hidden": "8", "steps_per_epoch": 64, "epochs": 2, "minibatches": 1}
QUIET = {"screen": False}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    """Children find the tests' environments, and compile with little care."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{TESTS.parent}:{TESTS}")
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")


def tiny(name, **settings):
    grid = Grid(name).add("algo", "ppo")
    for key, value in ({"env": "own_envs:Count-v0"} | TINY | settings).items():
        grid.add(key, value)
    return grid


@contextlib.contextmanager
def grid_command(words):
    """`jaxrl grid` as a process, which does not outlive the test."""
    command = [sys.executable, "-m", "jaxrl", "grid", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def finished_command(words, seconds=300.0):
    """Its exit code and what it printed."""
    with grid_command(words) as process:
        printed = process.communicate(timeout=seconds)[0]
        return process.returncode, printed


def in_a_line(name, **settings):
    """The words of a tiny grid."""
    words = ["ppo", "--name", name, "--env", "own_envs:Count-v0"]
    for key, value in (TINY | settings).items():
        values = value if isinstance(value, list) else [value]
        words += [f"--{key}", *map(str, values)]
    return words


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def rows(path):
    return len(table(path)) if (path / "progress.csv").exists() else 0
