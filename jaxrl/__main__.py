"""`jaxrl` and `python -m jaxrl`: the command, also while Python imports and exits."""

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Any

# How a process ends by default; signals that are ignored stay so.
USUAL: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGUSR1: signal.SIG_DFL,
}
_code: int | None = None  # of the command, once it has ended


def start() -> int:
    """Runs the command. Before and after it, Ctrl-C ends the process at once.

    Python would answer with a traceback from whatever it imports or clears up. So do
    the other signals that ask to end, which would end it without a message.
    """
    global _code
    usual = [one for one in USUAL if signal.getsignal(one) is USUAL[one]]
    for one in usual:
        signal.signal(one, _leave)
    from jaxrl.cli.main import main
    from jaxrl.processes import subprocesses

    subprocesses.die_with_the_runner()
    for one in usual:
        signal.signal(one, USUAL[one])
    _code = main()
    for one in usual:  # what the command did is done and said
        signal.signal(one, _leave)
    return end(_code)


def end(code: int) -> int:
    """Returns the code, or ends the process if a signal has stopped the command.

    The exception may have interrupted JAX, which can then crash while Python clears up.
    """
    from jaxrl.processes import ranks

    if code > 128 and ranks.size() == 1:  # MPI must be closed at Python's exit
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    return code


def _leave(number: int, frame: FrameType | None) -> None:
    if _code is None:
        with contextlib.suppress(OSError):  # the terminal may be closed
            os.write(2, f"jaxrl: stopped by {signal.Signals(number).name}\n".encode())
    os._exit(128 + number if _code is None else _code)


def _without_current_directory() -> None:
    """`python -m` puts it first on the path; modules there may be a stranger's."""
    here, ours = os.getcwd(), os.path.dirname(os.path.dirname(__file__))
    if not sys.flags.safe_path and sys.path[0] == here != ours:
        del sys.path[0]


if __name__ == "__main__":
    with contextlib.suppress(FileNotFoundError):  # it was removed
        _without_current_directory()
    sys.exit(start())
