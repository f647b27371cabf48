"""Runs a command in a fork of this process, within limits, and sees what it leaves."""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

SECONDS = 20.0  # without the time in which it waits for a core
LONGEST = 120.0  # with it
MEMORY = 1_000_000  # kB of a process
ADDRESSES = 4_000_000_000  # bytes; a request for more fails at once
STOP_AFTER = 10.0  # seconds, where a command may rightly take long
GRACE = 3.0  # seconds for the last processes to end
SUBREAPER = 36  # of prctl: orphans become children of this process


class Outcome(NamedTuple):
    """How a command ended."""

    code: int  # below 0, the signal that killed it
    seconds: float
    memory: int  # kB
    over: str  # the limit that it exceeded
    stopped: bool  # whether it was asked to stop
    left: list[str]  # processes


class Limits(NamedTuple):
    """What a command is asked to keep to."""

    stop_by: int = 0  # the signal that asks it to stop; 0 for none
    output: str = "plain"  # or ascii, full
    environment: dict[str, str] = {}  # noqa: RUF012


def prepare() -> None:
    """Limits this process and its forks; what a case leaves becomes its child."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, most))


def run(words: list[str], cwd: Path, printed: Path, limits: Limits) -> Outcome:
    """`jaxrl` with these words; what it prints is in the file `printed`."""
    sys.stdout.flush()
    sys.stderr.flush()
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _become(words, cwd, printed, limits)
    code, over, stopped, memory = _watch(pid, start, limits.stop_by)
    seconds = time.monotonic() - start
    return Outcome(code, seconds, memory, over, stopped, _left())


def _become(words: list[str], cwd: Path, printed: Path, limits: Limits) -> None:
    """In the fork: runs the command and ends as a separate process would."""
    from jaxrl import __main__
    from jaxrl.cli import main

    os.setsid()
    # If memory gets short all the same, nobody else's process is killed.
    Path("/proc/self/oom_score_adj").write_text("1000")
    os.environ.update(limits.environment)
    tempfile.tempdir = None
    os.chdir(cwd)
    _redirect(printed, limits.output)
    raise SystemExit(__main__.end(main.main(words)))


def _redirect(printed: Path, output: str) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    file = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    full = os.open("/dev/full", os.O_WRONLY)
    for source, target in (nothing, 0), (full if output == "full" else file, 1):
        os.dup2(source, target)
    os.dup2(file, 2)
    for one in (nothing, file, full):
        os.close(one)
    encoding = "ascii" if output == "ascii" else "utf-8"
    sys.stdout.reconfigure(encoding=encoding, errors="strict")  # type: ignore
    sys.stderr.reconfigure(encoding=encoding, errors="backslashreplace")  # type: ignore


def _watch(pid: int, start: float, stop_by: int) -> tuple[int, str, bool, int]:
    """Waits for the end; kills what exceeds a limit."""
    memory, over, stopped, pause = 0, "", False, 0.005
    delays: dict[int, float] = {}  # also of processes that have ended
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            memory = max(memory, used.ru_maxrss)
            return os.waitstatus_to_exitcode(status), over, stopped, memory
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
        family = _descendants()
        memory = max([memory, *map(_resident, family)])
        wall = time.monotonic() - start
        delays |= {one: _delay(one) for one in family}
        busy = wall - sum(delays.values())
        if stop_by and not stopped and busy > STOP_AFTER:
            os.kill(pid, stop_by)
            stopped = True
        if busy > SECONDS or wall > LONGEST:
            over = f"more than {SECONDS:.0f} s"
        elif memory > MEMORY:
            over = "more than 1 GB"
        if over:
            _kill(family)


def _left() -> list[str]:
    """The processes that still run after a moment; they are killed."""
    until = time.monotonic() + GRACE
    while _reap() and time.monotonic() < until:
        time.sleep(0.02)
    left = _descendants()
    names = [_command(one) for one in left]
    _kill(left)
    while _reap():
        time.sleep(0.02)
    return [name for name in names if name]


def _reap() -> bool:
    """Whether there is still a child that has not ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            done, _ = os.waitpid(-1, os.WNOHANG)
            if not done:
                return True
    return False


def _descendants(of: int | None = None) -> list[int]:
    root = of or os.getpid()
    try:
        threads = os.listdir(f"/proc/{root}/task")
        texts = [Path(f"/proc/{root}/task/{t}/children").read_text() for t in threads]
    except OSError:
        return []
    children = [int(word) for text in texts for word in text.split()]
    return children + [pid for child in children for pid in _descendants(child)]


def _kill(family: list[int]) -> None:
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _resident(pid: int) -> int:
    """Its memory in kB."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE") // 1000


def _delay(pid: int) -> float:
    """Seconds in which its main thread could have run, but no core was free."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _command(pid: int) -> str:
    """Its command line; empty for one that has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode(errors="replace") for word in words).strip()
