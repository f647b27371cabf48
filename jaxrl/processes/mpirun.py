"""Starting ranks with mpirun, passing signals on to them and saying how they ended."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from jaxrl.errors import UserError
from jaxrl.processes import banners, ranks, records, subprocesses
from jaxrl.processes import threads as thread_settings
from jaxrl.processes.records import RankRecord
from jaxrl.processes.signals import StopRequest, signal_name

PASSED_ON = signal.SIGUSR1  # the one of our signals that mpirun passes on to ranks
START_SECONDS = 10.0  # within which rank 0 reports that it has started
SHARED_MEMORY = "/dev/shm"
SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID")
# Open MPI's settings, by environment because other MPIs know no such options: several
# jobs on one machine must not be bound to the same cores.
OPEN_MPI = {
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
Output = Literal["inherit", "print", "discard"]
STREAMS = {"inherit": None, "print": subprocess.PIPE, "discard": subprocess.DEVNULL}
MOST_RANKS = 256  # that are started on a machine of a few cores
AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


class Launch:
    """One `jaxrl` command in several processes, under mpirun.

    What they print goes to this process's own standard output, to whatever `print`
    writes to now, as in a notebook, or nowhere. In the last two cases the reason of a
    failure is for the caller to report.
    """

    def __init__(
        self,
        words: list[str],
        size: int,
        threads: int,
        output: Output = "inherit",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        python = [sys.executable, "-P", "-m"]  # nothing from the current directory
        command = [*python, "jaxrl.processes.exec_with_parent", str(os.getpid())]
        command += [mpirun(), "-n", str(size), *python, "jaxrl", *words]
        command += [ranks.VERBOSE] if ranks.verbose() else []
        self._directory = SessionDirectory()
        self._records = self._directory.path / "ranks.jsonl"
        self._records.touch()
        self._stop: signal.Signals | None = None
        self._stop_time, self._stop_sent = 0.0, False
        self._banners: list[str] = []  # about the end
        self.reason = ""  # of a failure, for people
        self._output = output
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=STREAMS[output],
            stderr=subprocess.PIPE,
            env=environment_for(threads)
            | subprocesses.module_path()
            | dict(variables or {})
            | self._directory.environment()
            | {records.FILE: str(self._records)}
            | {ranks.LIVE: str(int(sys.stdout.isatty()))},
            text=True,
            errors="replace",
            process_group=0,  # so that Ctrl-C comes from here, and once
        )
        self._readers = [threading.Thread(target=self._pass_on_stderr)]
        if output == "print":
            self._readers.append(threading.Thread(target=self._pass_on_stdout))
        for reader in self._readers:
            reader.start()

    def _pass_on_stdout(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            print(line, end="", flush=True)

    def _pass_on_stderr(self) -> None:
        assert self._process.stderr is not None
        for text, about_end in banners.separate(self._process.stderr):
            if about_end:
                self._banners.append(text)
            else:
                print(text, end="", file=sys.stderr, flush=True)

    def wait(self, seconds: float) -> int | None:
        """The exit code, if it ends in this time."""
        if self._stop and not self._stop_sent:
            self._send_stop()
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._join_readers()
        self.reason = self._reason(code)
        if self.reason and self._output == "inherit":
            print(f"jaxrl: {self.reason}", file=sys.stderr)
        self._directory.remove()
        return code if code >= 0 else 128 - code

    def stop(self, stop: signal.Signals) -> None:
        """Asks all ranks to save and end."""
        self._stop, self._stop_time = stop, time.monotonic()

    def _send_stop(self) -> None:
        """To rank 0, which shares it with the others; mpirun would send another one."""
        assert self._stop
        for record in records.read(self._records):
            if record.rank == 0:
                self._stop_sent = True
                with contextlib.suppress(ProcessLookupError):
                    os.kill(record.pid, self._stop)
                return
        if time.monotonic() - self._stop_time > START_SECONDS:  # it is on another host
            self._stop_sent = True
            self._process.send_signal(PASSED_ON)

    def kill(self) -> None:
        """The ranks die with mpirun."""
        self._process.kill()
        self._process.wait()
        self._join_readers()
        self._directory.remove()

    def _join_readers(self) -> None:
        for reader in self._readers:
            reader.join()
        for stream in self._process.stdout, self._process.stderr:
            if stream:
                stream.close()

    def run_to_end(self) -> tuple[int, signal.Signals | None]:
        """The exit code, and the signal to this process that was passed on, if any."""
        asked = False
        with StopRequest() as stop:
            try:
                while (code := self.wait(0.1)) is None:
                    if stop.signal and not asked:
                        asked = True
                        self.stop(stop.signal)
            except BaseException:
                self.kill()
                raise
        return code, stop.signal

    def _reason(self, code: int) -> str:
        """Why the ranks failed; empty after success or a stop that they report."""
        reports = records.read(self._records)
        if failed := [one for one in reports if one.state == "failed"]:
            first = min(failed, key=lambda record: record.rank)
            return ranks.with_rank(first.rank, first.reason)
        if code == 0 or any(one.state == "interrupted" for one in reports):
            return ""
        if code < 0:
            name = signal_name(-code)
            return f"mpirun was killed by {name}; aborting all ranks"
        end = next(filter(None, map(banners.parse, self._banners)), None)
        stopped = self._stop is not None and code == 128 + self._stop
        if stopped and not (end and end.state == "killed"):
            return ""  # rank 0 handled the signal and has printed so
        if end:
            return f"{_describe(end)}; aborting all ranks"
        unexplained = "".join(self._banners).strip()
        return unexplained or f"mpirun ended with exit code {code}"


def _describe(end: RankRecord) -> str:
    ending = {
        "killed": f"was killed by {end.signal}",
        "exited": "exited without finalizing MPI",
    }
    failed = f"ended with exit code {end.exit_code}"
    return f"rank {end.rank} on {end.host} {ending.get(end.state, failed)}"


class SessionDirectory:
    """Files of one launch: ours and Open MPI's, which leaves its own when killed.

    A shell removes the directory if this process is killed: its input ends then.
    """

    def __init__(self) -> None:
        usable = os.access(SHARED_MEMORY, os.W_OK | os.X_OK)
        made = tempfile.mkdtemp("", "jaxrl-ranks-", SHARED_MEMORY if usable else None)
        self.path = Path(made)
        self._remover = subprocess.Popen(
            ["sh", "-c", 'read -r _; sleep 1; rm -rf -- "$0"', made],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def environment(self) -> dict[str, str]:
        """Tells Open MPI to use it; not in a cluster's job, which may span hosts."""
        if any(name in os.environ for name in SCHEDULERS):
            return {}
        names = ("PRTE_MCA_prte_tmpdir_base", "OMPI_MCA_btl_sm_backing_directory")
        return dict.fromkeys(names, str(self.path))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._remover.kill()
        self._remover.communicate()


def environment_for(threads: int) -> dict[str, str]:
    """The environment of mpirun, for ranks with `threads` threads each."""
    environment = os.environ | OPEN_MPI | thread_settings.environment(threads)
    if os.geteuid() == 0:
        environment |= dict.fromkeys(AS_ROOT, "1")
    return environment


def ranks_to_start(num_procs: int) -> int:
    """How many processes this one must start; 0 if none, or if it is one of them."""
    wanted = num_procs or thread_settings.physical_cores()
    if wanted == 1 or ranks.size() > 1:
        return 0
    most = max(MOST_RANKS, 4 * (os.cpu_count() or 1))
    if wanted > most:  # as a stranger's settings may ask
        raise UserError(
            f"num_procs is {wanted}, but this machine takes at most {most} processes"
        )
    return wanted


def threads_of_a_rank(size: int) -> int:
    """The cores for each of `size` processes on this machine."""
    cores = len(os.sched_getaffinity(0))
    share = max(cores // size, 1)
    # Fewer in a grid, whose runs share the cores.
    return min(share, int(os.environ.get("NPROC", cores)))


def mpirun() -> str:
    """The program next to this Python, or the system's."""
    own = Path(sys.executable).parent / "mpirun"
    found = str(own) if own.exists() else shutil.which("mpirun")
    if not found:
        raise UserError(
            "several processes need mpirun, which is not installed; pip install "
            "'jaxrl[mpi]' brings Open MPI"
        )
    if importlib.util.find_spec("mpi4py") is None:
        raise UserError(
            "several processes need mpi4py; install it with pip install mpi4py"
        )
    return found
