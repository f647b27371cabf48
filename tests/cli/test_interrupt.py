"""Ctrl-C and other signals before a command handles them by itself."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax  # noqa: F401  whose callback is meant
import pytest

from jaxrl.cli import interrupt
from jaxrl.cli.main import main
from jaxrl.experiments import search

IMPORTING = """
import os, signal, sys
from jaxrl.cli import interrupt

signal.signal(signal.SIGINT, signal.default_int_handler)
with interrupt.as_exception(), interrupt.as_exit():
    try:
        os.kill(os.getpid(), int(sys.argv[1]))
    except BaseException:
        print("it could be swallowed")
"""


WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "SIGHUP",
    signal.SIGUSR1: "SIGUSR1",
}


@pytest.fixture(autouse=True)
def usual_handler():
    """Which a shell takes away from what it runs in the background, and nohup."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, usual[number]) for number in usual}
    yield
    for number in before:
        signal.signal(number, before[number])


def _xla_gc_callback(swallowed):
    """As Python calls JAX's: what is raised in it is printed and forgotten."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        swallowed.append(True)


def test_no_callback_of_jax_swallows_it():
    assert interrupt.SWALLOWS in [getattr(x, "__name__", "") for x in gc.callbacks]
    swallowed = []
    with interrupt.as_exception():
        _xla_gc_callback(swallowed)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(5)
    assert not swallowed
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", WORDS)
def test_while_a_command_is_imported_it_ends_the_process(number):
    words = [sys.executable, "-c", IMPORTING, str(int(number))]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 128 + number
    assert done.stdout == ""
    assert done.stderr.count(WORDS[number]) == 1


LAZY_IMPORT = """
import os, signal, sys
from jaxrl.cli import interrupt

signal.signal(signal.SIGINT, signal.default_int_handler)
with interrupt.as_exception():
    import stops_itself
"""


@pytest.mark.parametrize("number", WORDS)
def test_in_a_later_import_nothing_is_raised_that_could_crash_it(number, tmp_path):
    module = tmp_path / "stops_itself.py"
    module.write_text(
        f"import os\ntry:\n    os.kill(os.getpid(), {int(number)})\n"
        "except BaseException:\n    print('it was raised')\n"
    )
    words = [sys.executable, "-c", LAZY_IMPORT]
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    variables = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(words, capture_output=True, text=True, env=variables)
    assert done.returncode == 128 + number
    assert done.stdout == ""
    assert done.stderr.count(WORDS[number]) == 1


@pytest.mark.parametrize("number", WORDS)
def test_a_search_that_opens_its_storage_says_that_it_was_stopped(
    number, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    text = "{name: x, algo: sac, env: Pendulum-v1, space: {lr: {uniform: [0.1, 1]}}}"
    Path("x.yaml").write_text(text)
    monkeypatch.setattr(search, "Search", lambda spec: os.kill(os.getpid(), number))
    assert main(["search", "x.yaml"]) == 128 + number
    assert WORDS[number] in capsys.readouterr().err
    assert os.listdir() == ["x.yaml"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("seconds", [0.5, 1, 2, 3])
def test_no_command_ends_by_sigterm_without_a_word(seconds, tmp_path):
    words = [sys.executable, "-m", "jaxrl", "train", "vpg", "--env", "CartPole-v1"]
    process = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    while not imports_jaxrl(process.pid):
        time.sleep(0.01)
    time.sleep(seconds)
    process.terminate()
    printed = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in printed
    assert "Traceback" not in printed


def imports_jaxrl(pid):
    """Whether Python has started to run our code: it handles SIGTERM."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line for line in lines if line.startswith("SigCgt"))
    return int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1


def test_one_that_is_ignored_stays_ignored():
    """As in a job of a script's background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupt.as_exception(), interrupt.as_exit():
        os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize(("code", "clears_up"), [(0, True), (1, True), (143, False)])
def test_after_a_signal_python_does_not_clear_up_what_jax_left(code, clears_up):
    script = (
        "import atexit, sys; from jaxrl.__main__ import end; print('said');"
        f"atexit.register(print, 'cleared up'); sys.exit(end({code}))"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert done.returncode == code
    assert done.stdout.split(b"\n")[:2] == [b"said", b"cleared up" * clears_up]
