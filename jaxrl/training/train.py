"""Training in environments that live on the host: begun, and taken up again."""

import contextlib
from pathlib import Path

from jaxrl.errors import UserError
from jaxrl.parallel import mpi
from jaxrl.runs import checkpoint, directory
from jaxrl.runs.checkpoint import Saved
from jaxrl.runs.spec import Run
from jaxrl.training import session
from jaxrl.training.callbacks import OnEpoch, RecordVideo
from jaxrl.training.session import Result, is_complete
from jaxrl.training.setup import prepare


def train(run: Run, screen: bool = True, on_epoch: OnEpoch | None = None) -> Result:
    """Runs it to its end; refuses, before anything is written, what cannot be run.

    `on_epoch(state, step)` may return metrics to log in that epoch's row.
    """
    path = directory.run_path(run)
    with _claimed(path):
        if mpi.rank() == 0 and not run.overwrite:
            directory.refuse_run(path)
        setup = prepare(run)
        videos = _videos(setup.run, path)
        for video in videos:
            video.check()
        if mpi.rank() == 0:
            directory.clear(path)
        return session.run(
            setup, path, screen=screen, on_epoch=on_epoch, callbacks=videos
        )


def _videos(run: Run, path: Path) -> list[RecordVideo]:
    """The callback that records videos, on the rank that writes."""
    return [RecordVideo(run, path)] if run.video_every and mpi.rank() == 0 else []


def _claimed(path: Path) -> contextlib.AbstractContextManager[None]:
    """By rank 0, which alone writes there, unless another fails and says why."""
    return directory.failure_noted(path) if mpi.rank() else directory.locked(path)


def resume(
    path: Path | str,
    steps: int | None = None,
    screen: bool = True,
    on_epoch: OnEpoch | None = None,
) -> Result:
    """Goes on from the newest good checkpoint, as if it had never stopped.

    `steps` are those of the whole run, if it is to end elsewhere.
    """
    path = Path(path)
    config = directory.config_text(path)
    with _claimed(path):
        found = (None, []) if mpi.rank() else checkpoint.newest(path)
        saved, complaints = checkpoint.broadcast(found)
        if saved is None and complaints:
            raise UserError("; ".join(["there is nothing to go on from", *complaints]))
        run = directory.read(saved.config if saved else config)
        if saved and steps is not None:
            _refuse_other_end(path, run, saved, steps, complaints)
        end = _end(run, saved, config) if steps is None else steps
        longer = run if end is None else directory.with_total_steps(run, end)
        setup = prepare(longer)
        notes = [*complaints, *_notes(longer, saved, config)]
        if saved is None and mpi.rank() == 0:
            directory.reset(path)
        return session.run(
            setup,
            path,
            saved,
            screen=screen,
            notes=notes,
            on_epoch=on_epoch,
            callbacks=_videos(setup.run, path),
        )


def _end(run: Run, saved: Saved | None, config: str) -> int | None:
    """Where a run that is complete was going on to when it was killed."""
    if saved is None or not is_complete(run, saved):
        return None
    return directory.extended_steps(run, config)


def _refuse_other_end(
    path: Path, run: Run, saved: Saved, steps: int, complaints: list[str]
) -> None:
    if steps < saved.content["env_steps"]:
        raise UserError(
            f"{path} has taken {saved.content['env_steps']} steps already; --steps "
            "counts from the beginning of the run"
        )
    # What was a decay until the old end would be another from before it.
    if complaints and not is_complete(run, saved):
        raise UserError("; ".join([*complaints, "resume it without --steps first"]))


def _notes(run: Run, saved: Saved | None, config: str) -> list[str]:
    """What a user may wonder about."""
    if saved is None:
        return ["there is no checkpoint yet; it begins anew"]
    notes = []
    if not directory.same_settings(config, saved.config):
        notes.append(
            "config.yaml was changed; the checkpoint's settings hold (jaxrl rerun "
            "takes others)"
        )
    if is_complete(run, saved):
        notes.append(f"it is complete, with {run.total_steps} steps")
    return notes
