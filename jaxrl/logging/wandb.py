"""Weights & Biases."""

import dataclasses
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl.logging.columns import Row


@dataclasses.dataclass(frozen=True, kw_only=True)
class WandbOptions:
    """What is logged to W&B about a run."""

    config: Mapping[str, Any]
    id: str | None = None
    """Of the run at W&B that this one continues."""
    tags: Sequence[str] = ()
    notes: str = ""
    models: bool = False
    """Whether models are uploaded."""


class Wandb:
    """Weights & Biases; `WANDB_MODE=offline` keeps it on this machine.

    W&B's own variables hold where an option is not given: WANDB_PROJECT, WANDB_ENTITY,
    WANDB_RUN_GROUP, WANDB_TAGS, WANDB_NOTES.
    """

    def __init__(self, directory: Path, options: WandbOptions) -> None:
        import wandb

        self._models = options.models
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "jaxrl",
            name=directory.resolve().name,
            group=os.environ.get("WANDB_RUN_GROUP") or _group(directory, options),
            tags=list(options.tags) or None,
            notes=options.notes or None,
            dir=str(directory),
            config=dict(options.config),
            id=options.id,
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

    def write_model(self, model: Path, names: Sequence[str], step: int) -> None:
        """A new version of the run's model; W&B stores the same content only once."""
        import wandb

        if not self._models:
            return
        artifact = wandb.Artifact(f"model-{self.id}", "model", metadata={"step": step})
        artifact.add_dir(str(model))
        aliases = [name for name in names if not name.isdecimal()]
        self._run.log_artifact(artifact, aliases=[*aliases, f"step-{step}"])

    def close(self) -> None:
        self._run.finish()


def _group(directory: Path, options: WandbOptions) -> str:
    """The grid or the search of the run, or else its experiment."""
    real = directory.resolve()
    if real.with_name(f"{real.name}.yaml").is_file():  # where a grid puts its settings
        return real.parent.parent.name
    return str(options.config.get("exp_name") or "")
