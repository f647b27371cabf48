"""Environments in worker processes: the same bits, and no process left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from jaxrl import envs
from jaxrl.runs import arrays


@pytest.fixture
def made():
    """Makes environments and closes them."""
    found = []

    def make(*arguments, **settings):
        found.append(envs.make(*arguments, **settings))
        return found[-1]

    yield make
    for each in found:
        each.close()


def actions(spec, count, seed=0):
    rng = np.random.default_rng(seed)
    if spec.action.shape == ():
        return rng.integers(spec.action.n, size=count)
    return rng.uniform(-1, 1, (count, *spec.action.shape)).astype(np.float32)


def assert_same_steps(one, two, count, steps):
    for step in range(steps):
        action = actions(one.spec, count, step)
        for a, b in zip(one.step(action), two.step(action), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(one.obs, two.obs)
        assert one.rewards == two.rewards
        assert one.finished == two.finished


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1", "own_envs:Count"])
def test_workers_give_the_same_bits_and_checkpoints(made, env):
    settings = (env, 5, 3, 7)  # an episode ends after 7 steps
    alone, shared = made(*settings), made(*settings, workers=3)
    assert alone.spec == shared.spec
    np.testing.assert_array_equal(alone.obs, shared.obs)
    assert_same_steps(alone, shared, 5, 17)
    saved = arrays.from_bytes(arrays.to_bytes(alone.saved()))
    assert arrays.to_bytes(alone.saved()) == arrays.to_bytes(shared.saved())
    again, other = made(*settings), made(*settings, workers=2)
    assert other.restore(saved) == again.restore(saved) == []
    np.testing.assert_array_equal(alone.obs, other.obs)
    assert_same_steps(alone, other, 5, 9)


def test_what_cannot_be_replayed_is_named_by_its_number(made):
    settings = ("own_envs:Count-v0", 3, 0, 7, {"chance": True})
    first = made(*settings)
    first.step(np.zeros((3, 1), np.float32))
    assert made(*settings, workers=2).restore(first.saved()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("kwargs", "error", "words"),
    [
        ({"fault": "reward"}, FloatingPointError, "reward is not finite"),
        ({"fault": "observation"}, FloatingPointError, "observation is not finite"),
    ],
)
def test_a_fault_in_a_worker_is_raised_as_without(made, kwargs, error, words):
    shared = made("own_envs:Count-v0", 2, 0, 9, kwargs, workers=2)
    shared.step(np.zeros((2, 1), np.float32))
    shared.step(np.zeros((2, 1), np.float32))
    with pytest.raises(error, match=words):
        shared.step(np.zeros((2, 1), np.float32))


def stumbling(made, trouble):
    settings = {"trouble": trouble, "rank": 0}
    shared = made("own_envs:Trouble-v0", 2, 0, 9, settings, workers=2)
    for _ in range(50):
        shared.step(np.zeros((2, 1), np.float32))


def test_an_exception_keeps_its_type_and_sentence(made):
    with pytest.raises(RuntimeError, match="a stone on the way"):
        stumbling(made, "raises")


@pytest.mark.parametrize(
    ("trouble", "words"), [("is killed", "SIGKILL"), ("vanishes", "code 0")]
)
def test_a_worker_that_ends_is_named(made, trouble, words):
    with pytest.raises(ChildProcessError, match=words):
        stumbling(made, trouble)


@pytest.mark.parametrize(
    ("env", "count", "words"),
    [
        ("Pendulum-v1", 1, "num_envs"),
        (lambda: None, 2, "lambda"),
        ("python:lambda", 2, "lambda"),
        ("envpool/Pendulum-v1", 2, "EnvPool"),
        ("Pendulum-v9", 2, "Pendulum-v1"),
    ],
)
def test_what_workers_cannot_step_is_refused(env, count, words):
    with pytest.raises(ValueError, match=words):
        envs.make(env, count, 0, 10, workers=2)


PROGRAM = """
import time
from jaxrl import envs
shared = envs.make("Pendulum-v1", 2, 0, 10, workers=2)
print(*(worker.process.pid for worker in shared._workers), flush=True)
time.sleep(60)
"""


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_run(number):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True
    ) as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        assert all(map(is_running, pids))
        process.send_signal(number)
        process.wait()
        until = time.monotonic() + 20
        while any(map(is_running, pids)) and time.monotonic() < until:
            time.sleep(0.05)
        assert not any(map(is_running, pids))


def test_a_closed_batch_leaves_no_process():
    shared = envs.make("Pendulum-v1", 2, 0, 10, workers=2)
    processes = [worker.process for worker in shared._workers]
    shared.close()
    assert all(process.returncode == 0 for process in processes)
