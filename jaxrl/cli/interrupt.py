"""Ctrl-C, and signals that ask to end, before a command handles them by itself."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from jaxrl.errors import Stopped
from jaxrl.processes import ranks
from jaxrl.processes.signals import SIGNALS

Handler = Callable[[int, FrameType | None], Any]
SWALLOWS = "_xla_gc_callback"  # JAX's; what is raised in it is printed and ignored
RETRY_AFTER = 0.01  # seconds
IMPORTLIB = "<frozen importlib._bootstrap>"  # the file of Python's import


@contextlib.contextmanager
def as_exception() -> Iterator[None]:
    """They raise KeyboardInterrupt, whatever the command is doing."""
    usual = dict.fromkeys(SIGNALS, signal.SIG_DFL)
    with _handled_by(_raise, usual | {signal.SIGINT: signal.default_int_handler}):
        yield


@contextlib.contextmanager
def as_exit() -> Iterator[None]:
    """They end the process. For imports, which may swallow an exception."""
    with _handled_by(_leave, dict.fromkeys(SIGNALS, _raise)):
        yield


@contextlib.contextmanager
def _handled_by(handler: Handler, usual: dict[signal.Signals, Any]) -> Iterator[None]:
    """In place of the `usual` handlers; other ones stay."""
    main = threading.current_thread() is threading.main_thread()
    # One of several ranks is ended by mpirun, which says why by itself.
    handled = SIGNALS if ranks.size() == 1 else (signal.SIGINT,)
    replaced = [one for one in handled if main and signal.getsignal(one) is usual[one]]
    for one in replaced:
        signal.signal(one, handler)
    try:
        yield
    finally:
        for one in replaced:
            signal.signal(one, usual[one])


def message(number: int) -> str:
    """What the user reads."""
    stopped = f"stopped by {signal.Signals(number).name}"
    return "interrupted" if number == signal.SIGINT else stopped


def exit_code(error: KeyboardInterrupt) -> int:
    return 128 + (error.signal if isinstance(error, Stopped) else signal.SIGINT)


def _raise(number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):  # an exception would crash C++ that is being loaded
        _leave(number, frame)
    if frame is not None and frame.f_code.co_name == SWALLOWS:
        threading.Timer(RETRY_AFTER, os.kill, (os.getpid(), number)).start()
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        raise Stopped(signal.Signals(number))


def _is_importing(frame: FrameType | None) -> bool:
    """Whether the code was called by an import."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTLIB:
            return True
        frame = frame.f_back
    return False


def _leave(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"\njaxrl: {message(number)}\n".encode())
    os._exit(128 + number)
