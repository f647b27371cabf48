"""Ctrl-C before a command handles signals by itself."""

import gc
import os
import signal
import subprocess
import sys
import time

import jax  # noqa: F401  whose callback is meant
import pytest

from jaxrl.cli import interrupt

IMPORTING = """
import os, signal
from jaxrl.cli import interrupt

signal.signal(signal.SIGINT, signal.default_int_handler)
with interrupt.as_exception(), interrupt.as_exit():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        print("it could be swallowed")
"""


@pytest.fixture(autouse=True)
def usual_handler():
    """Which a shell takes away from what it runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


def test_while_a_command_is_imported_it_ends_the_process():
    words = [sys.executable, "-c", IMPORTING]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stdout == ""
    assert done.stderr.count("interrupted") == 1


def test_one_that_is_ignored_stays_ignored():
    """As in a job of a script's background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupt.as_exception(), interrupt.as_exit():
        os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
