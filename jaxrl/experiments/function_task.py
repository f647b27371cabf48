"""One call of a user's function: `python -m jaxrl.experiments.function_task FILE`.

The runner of a grid starts this for each variant. The function gets an empty directory:
what an earlier attempt left there is moved aside, because only the function could know
how to continue it. How the call ended is written to the file that the runner names,
and to status.json in the directory.
"""

import contextlib
import os
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

from jaxrl.errors import UserError
from jaxrl.experiments import functions
from jaxrl.experiments.function_variant import FunctionVariant
from jaxrl.processes import signals, subprocesses
from jaxrl.runs import status
from jaxrl.runs.status import Status


class Stopped(BaseException):
    """A signal asks the function to end; `finally` blocks run."""


def main(file: Path) -> int:
    """Calls the function and notes how it ended; the exit code."""
    outcome = os.environ.pop(subprocesses.STATUS, "")  # not for its children
    subprocesses.die_with_the_runner()
    for number in signals.SIGNALS:
        signal.signal(number, _stop)
    variant = FunctionVariant.read(file)
    try:
        _call(variant)
        ended = _finished()
    except BaseException as error:
        ended = _failed(error)
    _write(variant, ended, Path(outcome) if outcome else None)
    return ended.exit_code or 0


def _call(variant: FunctionVariant) -> None:
    if kept := variant.move_aside():
        print(f"what an earlier attempt wrote is now in {kept}")
    variant.path.mkdir(parents=True, exist_ok=True)
    status.write(variant.path / status.FILE, Status(state="running"))
    with functions.importing():
        function = variant.function.load()
    function(directory=variant.path.absolute(), **variant.settings)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(signal.Signals(number))


def _finished() -> Status:
    # `jaxrl.train` inside of the function saves, returns and lets it go on.
    stopped = signals.noted()
    done = Status(state="finished", exit_code=0)
    return Status.from_signal(stopped) if stopped else done


def _failed(error: BaseException) -> Status:
    if isinstance(error, Stopped):
        return Status.from_signal(error.args[0])
    if isinstance(error, UserError):
        print(f"jaxrl: {error}", file=sys.stderr)
    else:
        traceback.print_exception(error)
    ended = Status.from_error(error)
    code = ended.exit_code or status.FAILED  # also of a function that calls exit(0)
    return Status(state=ended.state, reason=ended.reason, exit_code=code)


def _write(variant: FunctionVariant, ended: Status, outcome: Path | None) -> None:
    """The function's own log may have written a status; how the call ended counts."""
    changes: dict[str, Any] = {"state": ended.state, "reason": ended.reason}
    changes |= {"signal": ended.signal, "exit_code": ended.exit_code}
    with contextlib.suppress(OSError):  # the disk may be full, or the directory gone
        status.update(variant.path, **changes)
    if outcome:
        with contextlib.suppress(OSError):
            status.write(outcome, ended)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
