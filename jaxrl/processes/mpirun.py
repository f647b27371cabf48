"""Processes that learn together, ranks: starting them, and being one of them.

A launcher (mpirun or srun, typed by the user or started here) tells each process by the
environment which of how many it is. All this is known without MPI and without JAX.
"""

import contextlib
import ctypes
import importlib.util
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from jaxrl.errors import UserError

# Open MPI's, MPICH's and Slurm's words for the same things.
SIZE = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
RANK = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
LOCAL_SIZE = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE")
THREADS = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
VERBOSE = "--verbose-ranks"  # of the commands that start runs
LIVE = "JAXRL_LIVE"  # whether what is printed ends on a terminal
HEARD = "JAXRL_HEARD"  # host and file that name the signal which the launcher heard
PASSED_ON = signal.SIGUSR1  # the one of our signals that mpirun hands on
PR_SET_PDEATHSIG = 1
# Open MPI's settings, by environment because other MPIs know no such options: several
# jobs on one machine must not be bound to the same cores.
OPEN_MPI = {
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
# Seconds that the other ranks leave rank 0 to tell of an end; a refusal is all ranks',
# and comes while they still start.
MOURNING, REFUSAL = 1.0, 3.0


def _told(names: Iterable[str], default: int) -> int:
    words = (os.environ.get(name, "") for name in names)
    return next((int(word) for word in words if word.isdecimal()), default)


def size() -> int:
    """How many processes a launcher started; 1 without one."""
    return max(_told(SIZE, 1), 1)


def rank() -> int:
    """Which of them this is, from 0 on."""
    return _told(RANK, 0) if size() > 1 else 0


def environment_without_ranks() -> dict[str, str]:
    """The environment of a process that a rank starts, and which is none itself."""
    return {k: v for k, v in os.environ.items() if k not in (*SIZE, *RANK, *LOCAL_SIZE)}


def physical_cores() -> int:
    """Of those that this process may use; hyperthreads are no cores."""
    usable = os.sched_getaffinity(0)
    with contextlib.suppress(OSError, ValueError):
        shared = {
            Path(f"/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list")
            .read_text()
            .strip()
            for n in usable
        }
        return max(len(shared), 1)
    return len(usable)


def fix_threads() -> None:
    """XLA's results depend on its number of threads, so a run must fix it.

    Ranks on one machine share its cores.
    """
    cores = len(os.sched_getaffinity(0))
    if size() == 1:
        os.environ.setdefault("NPROC", str(cores))
        return
    share = cores // max(_told(LOCAL_SIZE, 1), 1)
    for name in THREADS:
        os.environ.setdefault(name, str(max(share, 1)))


def die_with_parent(parent: int = 0) -> None:
    """Ends this process as soon as the one that started it is dead."""
    if sys.platform != "linux":
        return
    # A run can be killed at any moment and lose nothing that a checkpoint holds.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:  # dead before the request was made
        os.kill(os.getpid(), signal.SIGKILL)


# Being a rank


class Prefixed:
    """A stream whose lines begin with the rank that wrote them."""

    def __init__(self, stream: object, prefix: str) -> None:
        self._stream, self._prefix, self._at_start = stream, prefix, True

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            start = self._prefix if self._at_start else ""
            self._stream.write(start + line)  # type: ignore[attr-defined]
            self._at_start = line.endswith("\n")
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def heard_by_all(own: signal.Signals) -> str:
    """The signal that the user sent; a launcher passes on another in its place."""
    host, _, file = os.environ.get(HEARD, "").partition(" ")
    with contextlib.suppress(OSError):
        return (host == platform.node() and Path(file).read_text()) or own.name
    return own.name


_stderr = 2  # where a rank that prints nothing else tells of its end
_verbose = False


def speaks() -> bool:
    """Whether this rank prints."""
    return _verbose or rank() == 0


def join(verbose: bool) -> None:
    """Becomes a rank: all but rank 0 are silent, or begin their lines with a prefix."""
    global _stderr, _verbose
    _verbose = verbose
    if size() == 1:
        return
    die_with_parent()
    one_error_ends_all()
    if not rank():
        return
    if verbose:
        sys.stdout = Prefixed(sys.stdout, f"[{rank()}] ")
        sys.stderr = Prefixed(sys.stderr, f"[{rank()}] ")
        return
    _stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def one_error_ends_all() -> None:
    """Where nobody catches it; the other ranks would wait for ever."""
    sys.excepthook = _end_all_for


def _end_all_for(kind: type, error: BaseException, trace: TracebackType | None) -> None:
    lines = traceback.format_exception(kind, error, trace)
    end_all(1, f"jaxrl: this should not have happened\n{''.join(lines).rstrip()}")


def end_all(code: int, why: str) -> NoReturn:
    """Ends every rank with this code, and says why once.

    What befell all is told by rank 0, which the others give the time to.
    """
    sys.stdout.flush()
    if rank():
        time.sleep(REFUSAL if code == 2 else MOURNING)
        why = re.sub("^jaxrl: ", f"jaxrl: rank {rank()}: ", why)
    with contextlib.suppress(OSError):
        os.write(_stderr, f"{why}\n".encode())
    if MPI := sys.modules.get("mpi4py.MPI"):
        MPI.COMM_WORLD.Abort(code)
    os._exit(code)  # before MPI was started, the launcher ends the others


# Starting ranks


class Launch:
    """`jaxrl` with the same words in several processes, under mpirun."""

    def __init__(self, words: list[str], ranks: int, threads: int) -> None:
        environment = environment_for(threads)
        environment[LIVE] = str(int(sys.stdout.isatty()))
        command = [mpirun(), "-n", str(ranks), sys.executable, "-m", "jaxrl", *words]
        command += [VERBOSE] if _verbose else []
        launcher = os.getpid()
        # Without a name of its own, so that not even a killed launcher leaves it.
        self._heard = tempfile.TemporaryFile("w")  # noqa: SIM115
        place = f"/proc/{launcher}/fd/{self._heard.fileno()}"
        environment[HEARD] = f"{platform.node()} {place}"
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            errors="replace",
            process_group=0,  # so that Ctrl-C comes from here, and once
            preexec_fn=lambda: die_with_parent(launcher),
        )
        self._name = PASSED_ON.name
        self._reader = threading.Thread(target=self._pass_on)
        self._reader.start()

    def _pass_on(self) -> None:
        assert self._process.stderr is not None
        for line in without_banners(self._process.stderr):
            # A rank that had only begun to start dies of what was passed on.
            line = line.replace(f"by {PASSED_ON.name};", f"by {self._name};")
            print(line, end="", file=sys.stderr, flush=True)

    def wait(self, seconds: float) -> int | None:
        """The exit code, if it ends so soon."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join()
        if code < 0 and not self._heard.tell():
            name = _name_of(-code)
            print(f"jaxrl: mpirun was killed by {name}; all end", file=sys.stderr)
        self._heard.close()
        return code if code >= 0 else 128 - code

    def stop(self, heard: signal.Signals) -> None:
        """Asks all ranks to save and end."""
        self._name = heard.name
        self._heard.write(heard.name)
        self._heard.flush()
        self._process.send_signal(PASSED_ON)

    def kill(self) -> None:
        """The ranks die with mpirun."""
        self._process.kill()
        self._process.wait()
        self._heard.close()


def environment_for(threads: int) -> dict[str, str]:
    """Of mpirun, whose ranks have so many threads each."""
    environment = os.environ | OPEN_MPI | dict.fromkeys(THREADS, str(threads))
    if os.geteuid() == 0:
        environment |= dict.fromkeys(AS_ROOT, "1")
    return environment


def mpirun() -> str:
    """The one beside this Python, or the system's."""
    beside = Path(sys.executable).parent / "mpirun"
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if not found:
        raise UserError(
            "several processes need mpirun, and there is none; pip install "
            "'jaxrl[mpi]' brings Open MPI"
        )
    if importlib.util.find_spec("mpi4py") is None:
        raise UserError(
            "several processes need mpi4py; install it with pip install mpi4py"
        )
    return found


KILLED = re.compile(r"process rank (\d+) .* on node (\S+) exited on\s+signal (\d+)")
GONE = re.compile(r"process rank (\d+) .* on node (\S+) exiting\s+improperly")
LEFT = re.compile(r"@\d+,(\d+)\]\s+Exit code:\s+(\d+)")


def without_banners(lines: Iterable[str]) -> Iterator[str]:
    """All but Open MPI's banners; of these, which rank was killed or went away."""
    banner: list[str] | None = None
    told = False
    # Some of its texts end in a NUL.
    for line in filter(None, (line.replace("\0", "") for line in lines)):
        if not re.fullmatch(r"-{60,}\s*", line):
            if banner is None:
                told = True
                yield line
            else:
                banner.append(line)
        elif banner is None:
            banner = []
        else:
            yield from _heart_of("".join(banner), told)
            banner = None
    yield from banner or ()


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _heart_of(banner: str, told: bool) -> Iterator[str]:
    """What it says, in a line; nothing where the rank `told` why it ended itself."""
    if found := KILLED.search(banner):
        rank, node, number = found.groups()
        name = _name_of(int(number))
        yield f"jaxrl: rank {rank} on {node} was killed by {name}; all end\n"
    elif found := GONE.search(banner):
        yield f"jaxrl: rank {found[1]} on {found[2]} went without a word; all end\n"
    elif found := LEFT.search(banner):
        if not told and int(found[2]) < 128:  # 128 and more is a signal that all heard
            yield f"jaxrl: rank {found[1]} ended with exit code {found[2]}; all end\n"
    elif "prterun" not in banner and "MPI_ABORT" not in banner:
        yield banner
