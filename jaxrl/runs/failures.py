"""Why runs ended early. Free of JAX, as all that reads runs."""

import os
from collections.abc import Iterable
from pathlib import Path

from jaxrl.runs import status

KILLED = "killed, or its machine went down"


def failure_reason(run: Path) -> str:
    """Why a run that is not running ended early, for people; "" if nobody knows."""
    known = status.read(run / status.FILE) or status.read(status.outcome_file(run))
    if known is None:
        return ""
    return KILLED if known.state == "running" else known.reason


def failed_to_start(roots: Iterable[Path]) -> list[Path]:
    """Where runs of grids would be that failed before they had a directory."""
    return [run for run in _of_grids(roots) if has_failed_to_start(run)]


def finished_without_log(roots: Iterable[Path]) -> list[Path]:
    """The directories of a grid's calls of a function that logged nothing there."""
    return [run for run in _of_grids(roots) if _has_finished_without_log(run)]


def _of_grids(roots: Iterable[Path]) -> list[Path]:
    """Where the runs of grids are or would be: beside their settings."""
    settings = {
        os.path.realpath(file.with_suffix("")): file.with_suffix("")
        for root in roots
        for file in sorted(root.rglob("*_s*.yaml"))
    }
    return list(settings.values())


def _has_finished_without_log(run: Path) -> bool:
    known = status.read(status.outcome_file(run))
    finished = known is not None and known.state == "finished" and run.is_dir()
    return finished and not any(run.rglob("config.yaml"))


def has_failed_to_start(run: Path) -> bool:
    """Whether a run of a grid failed before it wrote its own status."""
    known = status.read(status.outcome_file(run))
    failed = known is not None and known.state == "failed"
    return failed and not (run / "config.yaml").exists()
