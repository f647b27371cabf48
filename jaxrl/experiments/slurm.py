"""Runs variants on a cluster: job arrays of Slurm, submitted through submitit.

Slurm says what is in the queue, and a run's directory how it is doing. So no process
has to keep running on the machine that submits, and the same command finds the jobs
again. submitit is given a command and no function: it would pickle a function, and here
nothing is ever pickled.
"""

import contextlib
import dataclasses
import importlib.util
import io
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl.errors import UserError, suggestion
from jaxrl.experiments import pack, runner, slurm_queue
from jaxrl.experiments.job import Job
from jaxrl.experiments.runner import JobTable, Options, Summary
from jaxrl.experiments.slurm_queue import ArrayTask, settings_file
from jaxrl.experiments.variant import Variant
from jaxrl.files import write_atomically

USUAL_ARRAY = 1001  # runs at most, where Slurm does not say


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slurm:
    """Resources of each run; Slurm's defaults for what is left out."""

    partition: str = ""
    """Partition, or several with commas between."""
    time: str = ""
    """Time limit, as `sbatch` takes it; a run that needs longer is requeued."""
    cpus: int = 1
    """Cores and threads of each process."""
    gpus: str = ""
    """Number of GPUs, with or without their kind, as in a100:1.

    Runs in JAX environments that one program can train share the GPUs of one task.
    """
    memory: str = ""
    """Main memory of the whole run, as in 8G."""
    account: str = ""
    """Account to charge."""
    qos: str = ""
    """Quality of service."""
    sbatch: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further options of `sbatch` without their dashes; True for one without value."""

    @property
    def has_gpus(self) -> bool:
        """Whether it asks for one, on which runs are trained side by side."""
        return self.gpus.rpartition(":")[2].strip("0") != ""

    def parameters(self, processes: int, after: str = "") -> dict[str, Any]:
        """As submitit takes them, once the job `after` is over; None leaves one out."""
        further = {key: _flag(value) for key, value in self.sbatch.items()}
        if after:
            others = [further["dependency"]] if "dependency" in further else []
            further["dependency"] = ",".join([*others, f"afterany:{after}"])
        own = {
            "requeue": True,
            # To the script's own process, which passes it on.
            "signal": "B:USR1@90",
            "ntasks": processes,
        }
        return {
            "partition": self.partition or None,
            "time": self.time or None,
            "cpus_per_task": self.cpus,
            "gres": f"gpu:{self.gpus}" if self.gpus else None,
            "mem": self.memory or None,
            "account": self.account or None,
            "qos": self.qos or None,
            "additional_parameters": own | further,
        }


def _flag(value: Any) -> Any:
    return True if value == "true" else value


KNOWN = tuple(field.name for field in dataclasses.fields(Slurm))
# Texts end up in a script, where a new line would begin a command.
TEXT = (r"[^\s'\"]+", "a text without spaces")
RULES = {
    "time": (
        r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}",
        "minutes, hours:minutes:seconds or days-hours, as in 4:00:00 or 1-12",
    ),
    "cpus": (r"[1-9]\d*", "a whole number >= 1"),
    "gpus": (r"([\w.-]+:)?\d+", "a number, or a kind and a number as in a100:1"),
    "memory": (r"\d+[KMGT]?", "megabytes, or as in 8G"),
}
OURS = ("array", "chdir", "comment", "error", "ntasks", "open-mode", "output", "wrap")


def fault(name: str, value: Any) -> str:
    """What is wrong with a setting of `Slurm`; empty if nothing is."""
    if name not in KNOWN:
        hint = suggestion(name, KNOWN) or f"; there is {', '.join(KNOWN)}"
        return f"slurm has no setting {name!r}{hint}"
    if name == "sbatch":
        return _fault_of_options(value)
    pattern, rule = RULES.get(name, TEXT)
    right = re.fullmatch(pattern, str(value))
    return "" if right else f"slurm's {name} is {value!r}, but must be {rule}"


def _fault_of_options(options: Any) -> str:
    if not isinstance(options, Mapping):
        return "slurm's sbatch takes options, as in {constraint: a100, exclusive: true}"
    for name, value in options.items():
        if str(name).replace("_", "-") in OURS:
            return f"slurm's sbatch cannot have {name!r}: the grid decides it"
        if not re.fullmatch(r"[a-z][a-z_-]+", str(name)):
            return f"slurm's sbatch has {name!r}, which is no option of sbatch"
        if not re.fullmatch(TEXT[0], str(value)):
            return f"slurm's sbatch has {name}: {value!r}, but that must be {TEXT[1]}"
    return ""


def run_here(name: str, variants: Sequence[Variant], options: Options) -> Summary:
    """On this machine, unless the grid is in the queue of a cluster."""
    folder = _folder(name, options)
    here = folder.exists() and shutil.which("squeue")
    queue = slurm_queue.read(folder) if here else {}
    if arrays := slurm_queue.live_arrays(queue):
        raise UserError(
            f"{name} is in Slurm's queue; --launcher slurm shows its progress, "
            f"scancel {' '.join(arrays)} removes it"
        )
    return runner.run(name, variants, options)


def _folder(name: str, options: Options) -> Path:
    return (Path(options.out) / name / "slurm").absolute()


def run(
    name: str, variants: Sequence[Variant], options: Options, slurm: Slurm
) -> Summary:
    """Submits all that is neither finished nor in the queue, and shows progress."""
    if not isinstance(slurm, Slurm):
        raise UserError(f"slurm is {slurm!r}, but must be a slurm.Slurm")
    given = {key: value for key, value in vars(slurm).items() if value != ""}
    faults = [fault(key, value) for key, value in given.items()]
    if wrong := [sentence for sentence in faults if sentence]:
        raise UserError("; ".join(wrong))
    _refuse_where_there_is_none()
    folder = _folder(name, options)
    with runner.claimed(name, variants, options) as jobs:
        queued = slurm_queue.live(slurm_queue.read(folder))
        _refuse_other_settings(jobs, queued)
        waiting = [job for job in jobs if job.state == "waiting"]
        fresh = [job for job in waiting if settings_file(job) not in queued]
        table = JobTable(name, jobs, options)
        submit(_tasks(fresh, options, slurm, table), options, slurm, folder)
        return slurm_queue.follow(table, folder)


def _tasks(
    jobs: Sequence[Job], options: Options, slurm: Slurm, table: JobTable
) -> list[list[Job]]:
    """The jobs of each task: without a GPU one, because the cores of a cluster are many
    and one core trains runs one after the other.
    """
    if not (options.pack and slurm.has_gpus):
        return [[job] for job in jobs]
    tasks = pack.grouped(jobs)
    for together in tasks:
        if len(together) > 1:
            first = together[0].variant.name
            table.note(f"{len(together)} runs in one program, from {first}")
    return tasks


def _refuse_where_there_is_none() -> None:
    if importlib.util.find_spec("submitit") is None:
        raise UserError(
            "the launcher slurm needs the package submitit; install it with pip "
            "install 'jaxrl[slurm]'"
        )
    needed = ("sbatch", "squeue", "scontrol")
    if absent := [name for name in needed if shutil.which(name) is None]:
        raise UserError(
            f"there is no {absent[0]} here; start the grid where jobs of Slurm are "
            "submitted, or without --launcher slurm"
        )


def _size(task: Sequence[Job]) -> int:
    return task[0].variant.processes


def _refuse_other_settings(
    jobs: Iterable[Job], queued: Mapping[str, ArrayTask]
) -> None:
    """A job in the queue runs with the settings it was submitted with."""
    for job in jobs:
        task = queued.get(settings_file(job))
        if not task:
            continue
        if Variant.read(job.variant.file).determining != job.variant.determining:
            raise UserError(
                f"{job.variant.name} is in Slurm's queue with other settings; remove "
                f"it with scancel {task.id}, or choose another name"
            )


def submit(
    tasks: Sequence[Sequence[Job]], options: Options, slurm: Slurm, folder: Path
) -> None:
    """In arrays of equal tasks, each as long as Slurm takes them."""
    arrays: list[str] = []
    for part in _parts(tasks, _longest_array()):
        # Each array keeps to --jobs by itself, so one follows the other.
        after = arrays[-1] if arrays and options.jobs else ""
        try:
            arrays.append(_submit_array(part, options, slurm, folder, after))
        except UserError as error:
            if not arrays:
                raise
            raise UserError(
                f"{error}; the arrays before it are in the queue: the same command "
                f"submits the rest, scancel {' '.join(arrays)} cancels them"
            ) from None


def _parts(
    tasks: Sequence[Sequence[Job]], longest: int
) -> Iterator[Sequence[Sequence[Job]]]:
    for _, group in itertools.groupby(sorted(tasks, key=_size), _size):
        equal = list(group)
        yield from (equal[i : i + longest] for i in range(0, len(equal), longest))


def _longest_array() -> int:
    words = ["scontrol", "show", "config"]
    config = subprocess.run(words, capture_output=True, text=True).stdout
    found = re.search(r"MaxArraySize\s*=\s*(\d+)", config)
    return int(found[1]) if found else USUAL_ARRAY


def _submit_array(
    tasks: Sequence[Sequence[Job]],
    options: Options,
    slurm: Slurm,
    folder: Path,
    after: str,
) -> str:
    """Its number; the tasks are listed in a file that the array's comment names."""
    import submitit

    for job in itertools.chain(*tasks):
        job.write()
    folder.mkdir(parents=True, exist_ok=True)
    listing = folder / f"{uuid.uuid4().hex}.json"
    runs = [[settings_file(job) for job in task] for task in tasks]
    own = {"retries": options.retries, "time_limit": options.time_limit}
    write_atomically(listing, json.dumps({"tasks": runs, **own}, indent=2))
    executor = submitit.SlurmExecutor(folder)
    executor.update_parameters(
        job_name=folder.parent.name,
        comment=str(listing),
        array_parallelism=options.jobs or len(tasks),
        stderr_to_stdout=True,
        use_srun=False,
        wckey=None,
        **slurm.parameters(_size(tasks[0]), after),
    )
    executor.parameters["map_count"] = len(tasks)
    words = [sys.executable, "-m", "jaxrl.experiments.slurm_task", str(listing)]
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # it is in the error
            # In place of the shell, which would keep signals to itself.
            return executor._submit_command(f"exec {shlex.join(words)}").job_id
    except submitit.core.utils.FailedJobError as error:
        listing.unlink()
        reason = " ".join(str(error).replace("sbatch: error:", "").split())
        raise UserError(f"sbatch refused the array: {reason}") from None
