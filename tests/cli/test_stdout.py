"""Standard output that lacks characters or cannot be written; Ctrl-C at both ends."""

import io
import os
import signal
import subprocess
import sys

import pytest
from fake_runs import log, write_run

from jaxrl.logging.live_line import Output

JAXRL = [sys.executable, "-m", "jaxrl"]
# A module that is slow to import and to clear up, as JAX is.
SLOW_START = """
import os, signal, sys, types
from jaxrl import __main__
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "jaxrl.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
sys.exit(__main__.start())
"""
SLOW_EXIT = """
import atexit, os, signal, sys
from jaxrl import __main__
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv[1:] = ["--version"]
sys.exit(__main__.start())
"""


def command(*words, stdout=subprocess.PIPE, **environment):
    return subprocess.run(
        [*JAXRL, *map(str, words)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def full(request, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", request.param)
    with open("/dev/full", "w") as file:
        yield file


def test_characters_that_the_terminal_lacks_are_replaced(tmp_path):
    write_run(tmp_path, "été", 0, log([100], [1.0]))
    done = command("ls", tmp_path, LC_ALL="C", PYTHONIOENCODING="ascii:strict")
    assert done.returncode == 0, done.stderr
    assert "?t?" in done.stdout


def test_a_run_prints_what_the_terminal_lacks_as_question_marks():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    output = Output(stream)
    output.print("writing to été")
    output.print("epoch 1")
    stream.seek(0)
    assert stream.read().splitlines() == ["writing to ?t?", "epoch 1"]


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "sac", "-h"]])
def test_output_to_a_full_disk_ends_in_a_sentence(full, words):
    done = command(*words, stdout=full)
    assert done.returncode == 1
    assert "standard output" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_list_that_cannot_be_written_is_a_failure(full, tmp_path):
    write_run(tmp_path, "one", 0, log([100], [1.0]))
    done = command("ls", tmp_path, stdout=full)
    assert done.returncode == 1
    assert "standard output" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_run_names_a_full_standard_output_and_continues(full, tmp_path):
    words = ["train", "vpg", "--env", "Pendulum-v1", "--out", tmp_path, "--hidden", 8]
    words += ["--steps_per_epoch", 64, "--steps", 256, "--exp_name", "x"]
    done = command(*words, stdout=full)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("standard output") == 1
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert (tmp_path / "x" / "x_s0" / "models" / "last").exists()


@pytest.mark.parametrize(("code", "expected"), [(SLOW_START, 130), (SLOW_EXIT, 0)])
def test_ctrl_c_while_python_imports_or_exits_leaves_no_traceback(code, expected):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == expected
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.1, 0.2, 0.3])
def test_a_signal_in_the_first_moments_leaves_no_traceback(number, seconds):
    process = subprocess.Popen(
        [*JAXRL, "train", "vpg", "--env", "nothing-v0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    _, error = process.communicate(timeout=60)
    # Python itself reads no code of ours in its first moments.
    assert "jaxrl/" not in error or "Traceback" not in error
