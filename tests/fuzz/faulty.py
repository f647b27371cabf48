"""`python -m tests.fuzz.faulty`: commands that fail in each way; to be found."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

from . import __main__ as fuzz
from . import processes
from .judging import judge
from .sandbox import GOOD, SECRET


def raises() -> NoReturn:
    raise KeyError("x")


def hangs() -> None:
    time.sleep(60)


def eats_memory() -> None:
    print(len(b"x" * 1_500_000_000))


def dies() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def writes_outside() -> None:
    Path("../outside/secret.txt").write_text("")


def adds_outside() -> None:
    Path("../home/new").mkdir()


def changes_the_neighbour() -> None:
    Path(GOOD, "status.json").unlink()


def prints_the_secret() -> None:
    print(f"<{SECRET}>")


def writes_the_secret() -> None:
    Path("runs/page.html").write_text(SECRET)


def leaves_a_process() -> None:
    subprocess.Popen(["sleep", "60"], start_new_session=True)


def leaves_a_temporary_file() -> None:
    Path(os.environ["TMPDIR"], "x").write_text("")


def exits_with_3() -> NoReturn:
    sys.exit(3)


FAULTY = {
    raises: "KeyError",
    hangs: "more than",
    eats_memory: "1 GB",
    dies: "exit code -11",
    writes_outside: "changed outside",
    adds_outside: "changed home",
    changes_the_neighbour: "changed work/runs/good",
    prints_the_secret: "secret is printed",
    writes_the_secret: "secret is in work",
    leaves_a_process: "sleep",
    leaves_a_temporary_file: "changed tmp",
    exits_with_3: "exit code 3",
}


def main() -> int:
    from jaxrl.cli import main as command

    fuzz.import_all()
    real = command.main
    missed = 0
    with fuzz.sandbox() as sandbox:
        sandbox.build()
        processes.SECONDS = 3.0  # to wait less
        for number, (function, words) in enumerate(FAULTY.items()):
            command.main = lambda argv, function=function: function() or 0
            faults = judge(sandbox, 0, number).faults
            command.main = real
            found = any(words in fault for fault in faults)
            print(f"{'found' if found else 'MISSED'} {function.__name__}: {faults}")
            missed += not found
    return missed


if __name__ == "__main__":
    raise SystemExit(main())
