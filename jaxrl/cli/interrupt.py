"""Ctrl-C before a command handles signals by itself."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]
MESSAGE = b"\njaxrl: interrupted\n"
CODE = 128 + signal.SIGINT
SWALLOWS = "_xla_gc_callback"  # JAX's; what is raised in it is printed and ignored
RETRY_AFTER = 0.01  # seconds


@contextlib.contextmanager
def as_exception() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, whatever the command is doing."""
    with _handled_by(_raise, signal.default_int_handler):
        yield


@contextlib.contextmanager
def as_exit() -> Iterator[None]:
    """Ctrl-C ends the process. For imports, which may swallow an exception."""
    with _handled_by(_leave, _raise):
        yield


@contextlib.contextmanager
def _handled_by(handler: Handler, usual: Handler) -> Iterator[None]:
    """In place of the `usual` handler; another one stays."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _raise(number: int, frame: FrameType | None) -> None:
    if frame is None or frame.f_code.co_name != SWALLOWS:
        raise KeyboardInterrupt
    threading.Timer(RETRY_AFTER, os.kill, (os.getpid(), number)).start()


def _leave(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, MESSAGE)
    os._exit(CODE)
