"""Where the rows of a run go: progress.csv, TensorBoard, W&B and the terminal."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl.logging.columns import Row
from jaxrl.logging.console import printable
from jaxrl.logging.csv_file import Csv
from jaxrl.logging.tensorboard import TensorBoard
from jaxrl.logging.terminal import Terminal
from jaxrl.logging.wandb import Wandb, WandbOptions


@dataclasses.dataclass
class Sinks:
    """Every sink may be absent: only rank 0 has files, only some runs W&B."""

    csv: Csv | None = None
    tensorboard: TensorBoard | None = None
    wandb: Wandb | None = None
    terminal: Terminal | None = None

    @classmethod
    def open_files(
        cls,
        run: Path,
        step: int,
        *,
        settings: Mapping[str, Any],
        metrics: list[str],
        tensorboard: bool = True,
        wandb: WandbOptions | None = None,
    ) -> "Sinks":
        """Those of rank 0, for a run that starts at `step`.

        `settings` and `metrics` are TensorBoard's hyperparameters; without `wandb`,
        W&B is left out.
        """
        sinks = cls(csv=Csv(run / "progress.csv"))
        if tensorboard:
            sinks.tensorboard = TensorBoard(run / "tb", step)
            sinks.tensorboard.describe(settings, metrics)
        if wandb is not None:
            sinks.wandb = Wandb(run, wandb)
        return sinks

    def write(self, row: Row, step: int) -> None:
        for sink in (self.csv, self.tensorboard, self.wandb, self.terminal):
            if sink:
                sink.write(row, step)

    def write_video(self, video: Path, preview: bytes, step: int) -> None:
        """`preview` is a GIF, because TensorBoard shows no videos."""
        if self.tensorboard:
            self.tensorboard.write_video(preview, step)
        if self.wandb:
            self.wandb.write_video(video, step)

    def write_model(self, model: Path, names: Sequence[str], step: int) -> None:
        """Uploads a model that was saved under these names."""
        if self.wandb:
            self.wandb.write_model(model, names, step)

    def note(self, text: str) -> None:
        """Prints a line that is not part of the results."""
        if self.terminal:
            self.terminal.print(f"note: {printable(text)}")

    def close(self) -> None:
        with contextlib.ExitStack() as stack:  # each, though another one fails
            for sink in (self.csv, self.tensorboard, self.wandb, self.terminal):
                if sink:
                    stack.callback(sink.close)
