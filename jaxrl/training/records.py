"""What a run under way leaves behind: its table, models, films and checkpoints.

Each rank has records, so that the trainer need not ask which it is; the first alone
writes, and what others hand over is dropped.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl.errors import UserError
from jaxrl.logging.csv_file import Csv
from jaxrl.logging.logger import Logger
from jaxrl.logging.tensorboard import TensorBoard
from jaxrl.logging.terminal import Terminal
from jaxrl.logging.wandb import Wandb
from jaxrl.parallel import mpi
from jaxrl.processes import ranks
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import checkpoint, directory, reading
from jaxrl.runs.checkpoint import Saved, Store
from jaxrl.runs.spec import Run
from jaxrl.training import filming
from jaxrl.training.acting import numpy_policy
from jaxrl.types import EnvSpec


class Records:
    """Opened at the step where the run begins or goes on; rows come by the logger."""

    def __init__(
        self,
        run: Run,
        path: Path,
        step: int,
        logger: Logger,
        origin: Saved | None = None,
        screen: bool = True,
    ) -> None:
        self._run, self._path = run, path
        self._writes = mpi.rank() == 0
        self._wandb: Wandb | None = None
        self.screen: Terminal | None = None
        if self._writes:
            self._open_files(step, logger, origin)
        if screen and ranks.prints():  # after the disk, so that nothing is promised
            self.screen = Terminal(run.total_steps, step)
            logger.add_sink(self.screen)

    def _open_files(self, step: int, logger: Logger, origin: Saved | None) -> None:
        path, described = self._path, directory.description(self._run)
        self._config = directory.config_yaml(described)
        directory.prune_after(path, step)
        checkpoint.replace(path / "config.yaml", self._config)
        progress = origin.progress if origin else ""
        checkpoint.replace(path / "progress.csv", progress)
        self._store = Store(path, self._run.keep, origin)
        self._csv = Csv(path / "progress.csv")
        self._board = TensorBoard(path / "tb", step)
        settings = reading.determining(directory.settings(self._run))
        self._board.describe(settings, logger.returns)
        if self._run.wandb:
            earlier = origin.content.get("wandb") if origin else None
            self._wandb = Wandb(path, described, earlier)
        for sink in filter(None, (self._csv, self._board, self._wandb)):
            logger.add_sink(sink)

    def save_models(
        self, names: Iterable[str], spec: EnvSpec, state: Any, step: int
    ) -> None:
        """One policy, under each of the names."""
        if not self._writes:
            return
        policy = numpy_policy(state)
        assert policy is not None  # a run has jaxrl's own networks
        for name in names:
            place = self._path / "models" / name
            directory.save_model(place, self._run, spec, policy, step)

    def film(self, step: int, stop: StopRequest) -> None:
        """Of the model just saved, unless there is one already."""
        film = directory.video_path(self._path, step)
        if not self._writes or film.exists():
            return
        try:
            preview = filming.film(self._path, step, stop)
        except UserError as error:
            if self.screen:
                self.screen.notes([f"no film of step {step}: {error}"])
            return
        if preview:
            self._board.film(preview, step)
        if preview and self._wandb:
            self._wandb.film(film, step)

    # Checkpoints

    def checkpoint_is_affordable(self, seconds: float) -> bool:
        """After so long a run, by the first rank's disk; the same for all."""
        return bool(mpi.bcast_int(self._writes and self._store.affordable(seconds)))

    def save_checkpoint(
        self,
        content: dict[str, Any],
        rows: np.ndarray | None = None,
        first: int = 0,
        capacity: int = 0,
    ) -> None:
        """Begins to; `rows` are a ring's from the `first` on that was not yet saved."""
        if not self._writes:
            return
        content = content | {"wandb": self._wandb.id if self._wandb else None}
        saved = Saved(content, self._config, self._csv.text, rows, first)
        with mpi.paused():
            self._store.save(saved, capacity)

    def wait_for_the_disk(self) -> None:
        if self._writes:
            with mpi.paused():
                self._store.wait()

    def close(self) -> None:
        if self._writes:
            self._store.close()
