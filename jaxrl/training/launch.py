"""Runs in several processes that `jaxrl.train` and `jaxrl.resume` start themselves.

The processes get the settings as a file and leave the run's directory; its history and
its state are read from there. A user's own objects cannot follow them.
"""

import re
import sys
import tempfile
from pathlib import Path

import yaml

from jaxrl.errors import UserError
from jaxrl.logging.logger import parse_rows
from jaxrl.processes import mpirun, subprocesses
from jaxrl.processes.mpirun import Output
from jaxrl.runs import arrays, checkpoint, directory, status
from jaxrl.runs.spec import OWN, Run
from jaxrl.training import setup
from jaxrl.training.session import Result
from jaxrl.training.user_code import UserCode


def ranks_to_start(num_procs: int, user: UserCode) -> int:
    """How many processes to start; 0 if this one can do it, or is one of them."""
    if num_procs == 0 and user.given:  # as many as there can be with these objects
        return 0
    count = mpirun.ranks_to_start(num_procs)
    if count and user.given:
        raise UserError(
            f"{user.given[0]} is of this process, and num_procs={count} starts others; "
            f"leave it out, or start the script itself with mpirun -n {count} python"
        )
    return count


def train(run: Run, size: int, screen: bool) -> Result:
    """Trains with `size` processes; returns what rank 0 would."""
    known = directory.settings(run)
    flat = {name: known[name] for name in ("algo", "env", *OWN) if name in known}
    flat["preset"] = run.preset
    flat |= known["settings"] | {"num_procs": size, "overwrite": run.overwrite}
    with tempfile.TemporaryDirectory(prefix="jaxrl-train-") as place:
        file = Path(place) / "settings.yaml"
        file.write_text(yaml.safe_dump(flat, sort_keys=False))
        words = ["train", "--config", str(file)]
        try:
            return _run(words, size, screen, directory.run_path(run), Path(place))
        except UserError as error:  # the user has not written that file
            text = re.sub(rf"{re.escape(str(file))}: (line \d+: )?", "", str(error))
            raise UserError(text.replace(str(file), "the call")) from None


def resume(
    path: Path,
    steps: int | None,
    size: int,
    screen: bool,
    wandb: bool = False,
    changed_code: bool = False,
) -> Result:
    """Continues with `size` processes; returns what rank 0 would."""
    words = ["resume", str(path), *["--wandb"] * wandb]
    words += ["--changed_code"] * changed_code
    words += [] if steps is None else ["--steps", str(steps)]
    with tempfile.TemporaryDirectory(prefix="jaxrl-resume-") as place:
        return _run(words, size, screen, path, Path(place))


def _run(words: list[str], size: int, screen: bool, path: Path, place: Path) -> Result:
    outcome = place / "status.json"
    variables = {subprocesses.STATUS: str(outcome)}
    threads, before = mpirun.threads_of_a_rank(size), status.read(path / status.FILE)
    launch = mpirun.Launch(words, size, threads, _output(screen), variables)
    code, stopped_by = launch.run_to_end()
    if code and not stopped_by:
        ended = status.read(outcome)
        reason = (ended.reason if ended else "") or launch.reason
        if code == status.REFUSED:
            raise UserError(reason)
        status.note_reason(path, before, code, reason)
        raise RuntimeError(reason or f"the processes ended with exit code {code}")
    saved, complaints = checkpoint.newest(path)
    if saved is None:
        if stopped_by:  # before there was anything to save
            raise KeyboardInterrupt
        raise UserError("; ".join(["no checkpoint can be read", *complaints]))
    run = directory.read(saved.config)
    state = arrays.unflatten(setup.state_shapes(run), saved.content["state"])
    return Result(state, parse_rows(saved.progress), path, stopped_by)


def _output(screen: bool) -> Output:
    """How ranks print: through `print` where a notebook has replaced `sys.stdout`."""
    if not screen:
        return "discard"
    try:
        return "inherit" if sys.stdout.fileno() == 1 else "print"
    except (OSError, ValueError, AttributeError):
        return "print"
