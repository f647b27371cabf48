"""Weights & Biases."""

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl.logging.columns import Row


class Wandb:
    """Weights & Biases; `WANDB_MODE=offline` keeps it on this machine."""

    def __init__(
        self, directory: Path, config: Mapping[str, Any], earlier: str | None
    ) -> None:
        import wandb

        self._run = wandb.init(
            project="jaxrl",
            name=directory.name,
            dir=str(directory),
            config=dict(config),
            id=earlier,
            resume="allow",
        )

    @staticmethod
    def check_available() -> None:
        if importlib.util.find_spec("wandb") is None:
            raise ValueError(
                "--wandb needs the package wandb; install it with pip install "
                "'jaxrl[wandb]'"
            )
        import wandb

        offline = os.environ.get("WANDB_MODE") in ("offline", "dryrun", "disabled")
        if not offline and not wandb.api.api_key:
            raise ValueError(
                "--wandb needs a login: run wandb login, or set WANDB_MODE=offline"
            )

    @property
    def id(self) -> str:
        """Of the run at W&B; a resumed run continues it."""
        return self._run.id

    def write(self, row: Row, step: int) -> None:
        known = {name: value for name, value in row.items() if value is not None}
        self._run.log(known, step=step)

    def write_video(self, path: Path, step: int) -> None:
        import wandb

        self._run.log({"video": wandb.Video(str(path))}, step=step)

    def close(self) -> None:
        self._run.finish()
