"""`jaxrl.Logger`: the log, models and status of a loop that is not jaxrl's.

Its directory is one of a run, so that `jaxrl ls`, `plot` and `report` read it.
"""

import contextlib
import json
import operator
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jaxrl import files
from jaxrl.errors import UserError, about_arguments, suggestion
from jaxrl.logging.columns import RETURNS, STEPS, Row
from jaxrl.logging.logger import EpochLogger, fault_in_name
from jaxrl.logging.sinks import Sinks
from jaxrl.logging.stats import Stats
from jaxrl.logging.terminal import Terminal
from jaxrl.logging.wandb import Wandb, WandbOptions
from jaxrl.parallel import mpi
from jaxrl.runs import contents, directory, reading, spec, trees
from jaxrl.runs.machine import machine
from jaxrl.runs.reading import CONFIG, LOGGER, MODEL
from jaxrl.runs.status import Attempt, Status
from jaxrl.runs.user_config import plain_config

OWN = ("Epoch", STEPS, "Time")  # columns that `dump` fills in itself
SPREAD = ("EpRet", "TestEpRet")
OTHER = "choose another directory"
HOLDS_RUN = "{0} holds files already; overwrite=True removes a run there, or " + OTHER
FOREIGN = "{0} holds files, but no run of jaxrl, so it is not removed; " + OTHER


class Logger:
    """Logs your own loop: `store` values, `dump` a row an epoch, `save_model`.

    EpRet, TestEpRet and the names in `spread` have the columns Average, Std, Max and
    Min, all others their mean. Under mpirun every rank calls every method; statistics
    are pooled and rank 0 alone writes.
    """

    @about_arguments()
    def __init__(
        self,
        directory: str | os.PathLike[str],
        config: Any = None,
        *,
        screen: bool = True,
        tensorboard: bool = True,
        wandb: bool = False,
        wandb_models: bool = False,
        overwrite: bool = False,
        spread: Iterable[str] = (),
    ) -> None:
        if not isinstance(directory, str | os.PathLike) or not os.fspath(directory):
            raise UserError(f"directory is {directory!r}, but must be a path")
        self.directory = Path(os.fsdecode(directory))
        described = _described(self.directory, plain_config(config))
        self._lock, self._start = contextlib.ExitStack(), time.monotonic()
        self._is_open, self._step = False, -1
        self._attempt = Attempt(self.directory, None, mpi.rank() == 0)
        sinks = self._open_on_rank0(
            described,
            screen=screen,
            tensorboard=tensorboard,
            wandb=wandb,
            wandb_models=wandb_models,
            overwrite=overwrite,
        )
        spread = {spread} if isinstance(spread, str) else set(spread)
        self._log = EpochLogger(
            list(OWN), spread | set(SPREAD), [], mpi.reduce_stats, sinks
        )
        self._is_open = True

    def _open_on_rank0(self, described: dict[str, Any], **options: bool) -> Sinks:
        """What rank 0 writes; its refusal is raised by every rank."""
        refusal, sinks = "", Sinks()
        if mpi.rank() == 0:
            try:
                sinks = _open(self.directory, described, self._lock, **options)
                self._attempt.start(0, 0)
            except BaseException as error:
                self._lock.close()
                if not isinstance(error, ValueError):
                    raise
                refusal = str(error)
        if refusal := mpi.bcast_bytes(refusal.encode()).decode():
            raise UserError(refusal)
        return sinks

    @property
    def history(self) -> list[Row]:
        """The rows so far."""
        return self._log.history

    def store(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Adds numbers or arrays to the epoch; in a dict where a name has a `/`."""
        self._require_open("store")
        if values is not None and not isinstance(values, Mapping):
            raise UserError(
                f"store takes values by name, as in store(Loss=0.1), got {values!r:.80}"
            )
        try:
            self._log.store_own({**(values or {}), **named})
        except ValueError as error:
            raise UserError(str(error)) from None

    def stats(self, name: str) -> Stats:
        """n, mean, std, min and max of what all ranks stored in this epoch."""
        self._require_open("stats")
        if fault := fault_in_name(name):
            raise UserError(fault)
        found = self._log.stats(name)
        if found is None:
            known = self._log.stored | set(self._log.names)
            raise UserError(
                f"nothing is stored as {name!r} in this epoch{suggestion(name, known)}"
            )
        return found

    def dump(self, step: int) -> Row:
        """Writes the row of this epoch, at `step` of the run, and returns it."""
        self._require_open("dump")
        self._step = self._checked_step(step)
        (anything,) = mpi.allreduce_max(int(bool(self._log.stored)))
        if not anything:
            raise UserError("nothing is stored since the last dump; call store before")
        if mpi.rank() == 0:
            seconds = time.monotonic() - self._start
            epoch = len(self._log.history) + 1
            self._log.store(Epoch=epoch, TotalEnvInteracts=self._step, Time=seconds)
        row = self._log.dump(self._step)
        self._attempt.step = self._step
        return row

    def _checked_step(self, step: Any) -> int:
        """Rank 0's, if it is later than that of the last row."""
        try:
            whole = operator.index(step.item() if hasattr(step, "item") else step)
        except TypeError:
            raise UserError(f"step is {step!r}, but must be a whole number") from None
        whole = mpi.bcast_int(whole) if abs(whole) < 10**18 else -1
        if whole < 0:
            raise UserError(f"step is {step!r}, but must be 0 or more")
        if whole <= self._step:
            raise UserError(
                f"step is {step!r}, but the last row is of step {self._step}; it is "
                "counted from the start of the run and increases with every row"
            )
        return whole

    def save_model(self, name: str, model: Any) -> None:
        """Replaces the model so named; `jaxrl.load_model(directory, name)` loads it."""
        self._require_open("save_model")
        if not isinstance(name, str) or (fault := spec.fault_in_name(name, "name")):
            wrong = fault if isinstance(name, str) else f"name is {name!r:.80}"
            raise UserError(f"{wrong}; as in save_model('last', params)")
        if mpi.rank():
            return
        place = self.directory / "models" / name
        place.parent.mkdir(exist_ok=True)
        meta = {"by": LOGGER, "step": max(self._step, 0)}
        with files.replacing_directory(place) as fresh:
            trees.save(fresh / trees.FILE, model)
            (fresh / MODEL).write_text(json.dumps(meta, indent=2) + "\n")
        self._log.sinks.write_model(place, [name], max(self._step, 0))

    def _require_open(self, what: str) -> None:
        if not self._is_open:
            raise UserError(f"{self.directory} is closed; {what} is for an open Logger")

    def close(self) -> None:
        """Ends the run as finished; `with` does so, or notes the error that ends it."""
        self._close(Status(state="finished", exit_code=0))

    def _close(self, outcome: Status) -> None:
        if not self._is_open:
            return
        self._is_open = False
        with self._lock, contextlib.ExitStack() as stack:
            stack.callback(self._attempt.end, outcome)  # though a sink cannot be closed
            self._log.close()

    def __enter__(self) -> Self:
        self._require_open("with")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.close()
            return
        with contextlib.suppress(OSError):  # the disk may be full; the error says more
            self._close(Status.from_error(error))

    def __repr__(self) -> str:
        state = "" if self._is_open else ", closed"
        return f"Logger({str(self.directory)!r}, rows={len(self.history)}{state})"


def _refuse(path: Path, overwrite: bool) -> None:
    """Refuses a directory with files that may not be removed."""
    if overwrite:
        contents.refuse_foreign(path, FOREIGN)
    else:
        contents.refuse_run(path, HOLDS_RUN)


def _described(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What config.yaml holds; `mine_s3` is the experiment mine with the seed 3."""
    name = path.resolve().name
    parts = re.fullmatch(r"(.+)_s(\d{1,15})", name)
    seed = settings.get("seed")
    if type(seed) is not int:
        seed = int(parts[2]) if parts else 0
    known = {key: settings.get(key) for key in ("algo", "env")}
    return {
        "logged_by": LOGGER,
        **{key: value for key, value in known.items() if value and type(value) is str},
        "exp_name": parts[1] if parts else name,
        "seed": seed,
        "num_procs": mpi.size(),
        "settings": settings,
        "machine": machine(),
    }


def _open(
    path: Path,
    described: dict[str, Any],
    lock: contextlib.ExitStack,
    *,
    screen: bool,
    tensorboard: bool,
    wandb: bool,
    wandb_models: bool,
    overwrite: bool,
) -> Sinks:
    """Locks and clears the directory, and writes what describes the run."""
    if wandb_models and not wandb:
        raise UserError("wandb_models=True needs wandb=True")
    if wandb:
        Wandb.check_available()
    text = directory.config_yaml(described)
    if len(text.encode()) > files.SETTINGS:
        raise UserError(f"config has more than {files.SETTINGS:,} bytes as text")
    if path.is_dir():  # before a lock is left in a stranger's directory
        _refuse(path, overwrite)
    lock.enter_context(directory.locked(path, OTHER))
    _refuse(path, overwrite)
    kept = contents.clear(path)
    files.write_atomically(path / CONFIG, text)
    sinks = Sinks.open_files(
        path,
        0,
        settings=reading.determining(described),
        metrics=list(RETURNS[1:]),
        tensorboard=tensorboard,
        wandb=WandbOptions(config=described, models=wandb_models) if wandb else None,
    )
    if screen:
        sinks.terminal = Terminal()
        sinks.terminal.print(f"writing to {path}")
    if kept:
        sinks.note(f"your own files in {path} are now in {kept}")
    return sinks
