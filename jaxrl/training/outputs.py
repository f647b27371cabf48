"""What a run writes: its log, its models and its checkpoints.

Every rank has them, so that the loop need not ask which one it is; only rank 0 writes.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.files import write_atomically
from jaxrl.logging.columns import return_columns
from jaxrl.logging.logger import EpochLogger, parse_rows
from jaxrl.logging.sinks import Sinks
from jaxrl.logging.terminal import Terminal
from jaxrl.logging.wandb import WandbOptions
from jaxrl.parallel import mpi
from jaxrl.processes import ranks
from jaxrl.runs import directory, models, reading
from jaxrl.runs.checkpoint import Saved
from jaxrl.runs.checkpoint_writer import CheckpointWriter
from jaxrl.runs.spec import Run
from jaxrl.training.acting import saved_policy
from jaxrl.types import EnvSpec


def open_outputs(
    setup: Any, path: Path, saved: Saved | None, screen: bool
) -> tuple[EpochLogger, "Saver"]:
    """Opens all that a run writes, from the step where it starts or resumes."""
    run, step = setup.run, setup.progress.env_steps
    saver, sinks = Saver(run, path), Sinks()
    if mpi.rank() == 0:
        described = directory.description(run)
        if saved:
            described |= directory.extensions(saved.config, step, run)
        saver.open(step, directory.config_yaml(described), saved)
        sinks = Sinks.open_files(
            path,
            step,
            settings=reading.determining(directory.settings(run)),
            metrics=return_columns(run.data.num_test_episodes),
            wandb=WandbOptions(
                config=described,
                id=saved.content.get("wandb") if saved else None,
                tags=run.wandb_tags,
                notes=run.wandb_notes,
                models=run.wandb_models,
            )
            if run.wandb
            else None,
        )
    if screen and ranks.prints():  # last, so that nothing is shown if that failed
        sinks.terminal = Terminal(run.total_steps, step)
        sinks.terminal.print(f"writing to {path}")
    history = parse_rows(saved.progress if saved else "")
    names, spread = setup.columns
    return EpochLogger(names, spread, history, mpi.reduce_stats, sinks), saver


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds what could not be written to an error that does not say it."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.strerror:
            error.filename = str(path)
        elif error.filename is None:
            raise OSError(f"{error} ({path})") from error
        raise


class Saver:
    """Saves models and checkpoints; does nothing on ranks other than 0."""

    def __init__(self, run: Run, path: Path) -> None:
        self._run, self._path = run, path
        self._writer: CheckpointWriter | None = None
        self._config = ""
        self._wandb: Any = None  # the id of an earlier start with W&B

    def open(self, step: int, config: str, saved: Saved | None) -> None:
        """Brings the directory to where the run starts or resumes."""
        directory.prune_after(self._path, step)
        progress = saved.progress if saved else ""
        for name, text in ("config.yaml", config), ("progress.csv", progress):
            with naming(self._path / name):
                write_atomically(self._path / name, text)
        self._config = config
        self._wandb = saved.content.get("wandb") if saved else None
        self._writer = CheckpointWriter(self._path, self._run.keep, saved)

    def model_path(self, name: str) -> Path:
        return self._path / "models" / name

    def save_models(
        self, names: Iterable[str], spec: EnvSpec, state: Any, step: int
    ) -> None:
        """Saves one policy under each of the names."""
        if not self._writer:
            return
        policy, leaves = saved_policy(self._run.module, spec, state)
        batches = getattr(getattr(state, "obs_norm", None), "batches", None)
        count = None if batches is None else int(np.asarray(batches))
        for name in names:
            place = self.model_path(name)
            with naming(place):
                models.save(place, self._run, spec, policy, leaves, step, count)

    def checkpoint_is_affordable(self, seconds: float) -> bool:
        """After so long a run, by the disk of rank 0; the same on all ranks."""
        affordable = self._writer is not None and self._writer.affordable(seconds)
        return bool(mpi.bcast_int(affordable))

    def save_checkpoint(
        self,
        content: dict[str, Any],
        sinks: Sinks,
        rows: np.ndarray | None,
        first: int,
        capacity: int,
    ) -> None:
        """Starts to save; `rows` of the replay buffer were inserted from `first` on."""
        if not self._writer:
            return
        assert sinks.csv
        content = content | {"wandb": sinks.wandb.id if sinks.wandb else self._wandb}
        saved = Saved(content, self._config, sinks.csv.text, rows, first)
        with mpi.paused():
            self._writer.save(saved, capacity)

    def wait(self) -> None:
        """Until the last checkpoint is on the disk."""
        if self._writer:
            with mpi.paused():
                self._writer.wait()

    def close(self) -> None:
        if self._writer:
            self._writer.close()
