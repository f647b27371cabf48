"""Starts and resumes training in environments on the host."""

import contextlib
from pathlib import Path

from jaxrl.errors import UserError
from jaxrl.parallel import mpi
from jaxrl.processes import ranks
from jaxrl.runs import checkpoint, directory, status
from jaxrl.runs.checkpoint import Saved
from jaxrl.runs.spec import Run
from jaxrl.runs.status import Attempt, Status
from jaxrl.training import filming
from jaxrl.training.loop import OnEpoch, Result, Trainer, is_complete


def train(run: Run, screen: bool = True, on_epoch: OnEpoch | None = None) -> Result:
    """Runs to the end; refuses bad input before anything is written or removed.

    `on_epoch(state, step)` may return metrics to log in that epoch's row.
    """
    path = directory.run_path(run)
    with _claimed(path), Attempt(path, None, mpi.rank() == 0) as attempt:
        if mpi.rank() == 0 and not run.overwrite:
            directory.refuse_run(path)
        trainer = Trainer(run, path, on_epoch)
        if mpi.rank() == 0:
            if run.video_every:
                filming.rehearse(run)
            # Whatever cannot be described must show before an earlier run is removed.
            directory.config_yaml(directory.description(trainer.run))
            directory.clear(path)
        return _run(trainer, attempt, None, screen)


def _claimed(path: Path) -> contextlib.AbstractContextManager[None]:
    """Rank 0 locks the directory: it alone writes there."""
    return contextlib.nullcontext() if mpi.rank() else directory.locked(path)


def _run(
    trainer: Trainer,
    attempt: Attempt,
    saved: Saved | None,
    screen: bool,
    notes: list[str] | None = None,
) -> Result:
    """To the end or a signal, with its status kept up to date."""
    total = trainer.run.total_steps
    attempt.start(saved.content["taken"] if saved else 0, total)
    if screen and ranks.prints():
        with contextlib.suppress(OSError):  # nobody reads it any more
            print(f"writing to {trainer.path}", flush=True)
    try:
        result = trainer.start(saved, screen, notes)
    finally:
        attempt.step = trainer.taken
    if trainer.taken >= total and not trainer.owes_update:
        attempt.end(Status(state="finished", exit_code=0))
    elif result.stopped_by:
        attempt.end(Status.from_signal(result.stopped_by))
    return result


def resume(
    path: Path | str,
    steps: int | None = None,
    screen: bool = True,
    on_epoch: OnEpoch | None = None,
) -> Result:
    """Continues from the newest good checkpoint, as if it had never stopped.

    `steps` replaces the total number of steps.
    """
    path = Path(path)
    config = directory.config_text(path)
    before = status.read(path / status.FILE)
    with _claimed(path), Attempt(path, before, mpi.rank() == 0) as attempt:
        found = (None, []) if mpi.rank() else checkpoint.newest(path)
        saved, complaints = checkpoint.shared(found)
        if saved is None and complaints:
            raise UserError("; ".join(["no checkpoint can be used", *complaints]))
        run = directory.read(saved.config if saved else config)
        if saved and steps is not None:
            _refuse_other_end(path, run, saved, steps, complaints)
        end = _end(run, saved, config) if steps is None else steps
        longer = run if end is None else directory.with_total_steps(run, end)
        trainer = Trainer(longer, path, on_epoch)
        notes = [*complaints, *_notes(longer, saved, config)]
        if saved is None and mpi.rank() == 0:
            directory.reset(path)
        return _run(trainer, attempt, saved, screen, notes)


def _end(run: Run, saved: Saved | None, config: str) -> int | None:
    """The steps of a run that was killed while it was made longer; else None."""
    if saved is None or not is_complete(run, saved):
        return None
    return directory.extended_steps(run, config)


def _refuse_other_end(
    path: Path, run: Run, saved: Saved, steps: int, complaints: list[str]
) -> None:
    if steps < saved.content["taken"]:
        raise UserError(
            f"{path} has taken {saved.content['taken']} steps already; --steps is the "
            "total of the run"
        )
    # A decay over the old total would change for steps already taken.
    if complaints and not is_complete(run, saved):
        raise UserError("; ".join([*complaints, "resume it without --steps first"]))


def _notes(run: Run, saved: Saved | None, config: str) -> list[str]:
    """What the user should know before it starts."""
    if saved is None:
        return ["there is no checkpoint yet; the run starts from its first step"]
    notes = []
    if not directory.same_settings(config, saved.config):
        notes.append(
            "config.yaml was changed; the checkpoint's settings are used (jaxrl rerun "
            "takes others)"
        )
    if is_complete(run, saved):
        notes.append(f"it is complete, with {run.total_steps} steps")
    return notes
