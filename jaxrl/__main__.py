"""`jaxrl` and `python -m jaxrl`: the command, also while Python imports and exits."""

import os
import signal
import sys
from types import FrameType

_code = 128 + signal.SIGINT  # with which Ctrl-C ends the process


def start() -> int:
    """Runs the command. Before and after it, Ctrl-C ends the process at once.

    Python would answer with a traceback from whatever it imports or clears up.
    """
    global _code
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, _leave)
    from jaxrl.cli.main import main
    from jaxrl.processes import subprocesses

    subprocesses.die_with_the_runner()
    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _code = main()
    if usual:  # what the command did is done and said
        signal.signal(signal.SIGINT, _leave)
    return _code


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(_code)


if __name__ == "__main__":
    sys.exit(start())
