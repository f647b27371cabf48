"""Starts and resumes training."""

import contextlib
import dataclasses
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jaxrl.errors import UserError
from jaxrl.parallel import mpi
from jaxrl.runs import checkpoint, code, contents, directory, status
from jaxrl.runs.checkpoint import Saved
from jaxrl.runs.spec import Run
from jaxrl.runs.status import Attempt, Status
from jaxrl.training import init_from, session, user_env
from jaxrl.training.callbacks import RecordVideo
from jaxrl.training.jax_setup import SharedEngine
from jaxrl.training.session import Result, Start, is_complete
from jaxrl.training.setup import AnySetup, prepare
from jaxrl.training.user_callbacks import Callbacks
from jaxrl.training.user_code import NONE, UserCode


def train(run: Run, screen: bool = True, user: UserCode = NONE) -> Result:
    """Runs to the end; refuses bad input before anything is written or removed."""
    with started(run, user) as (start, attempt):
        return _run(start, attempt, screen)


Started = tuple[Start, Attempt]


@contextlib.contextmanager
def started(
    run: Run, user: UserCode = NONE, shared: SharedEngine | None = None
) -> Iterator[Started]:
    """A new run, prepared in its directory."""
    user.check()
    path = directory.run_path(run)
    with _claimed(path), Attempt(path, None, mpi.rank() == 0) as attempt:
        if mpi.rank() == 0:
            refuse_taken(run, path)
        user_env.check_video(run)
        setup, notes = init_from.apply(prepare(run, user, shared))
        notes += user_env.notes(run, user.env)
        if mpi.rank() == 0:
            if run.video_every:
                RecordVideo(setup.run, path).check()
            # Whatever cannot be described must show before an earlier run is removed.
            directory.config_yaml(directory.description(setup.run))
            kept = contents.clear(path)
            notes += [f"your own files in {path} are now in {kept}"] if kept else []
            notes += directory.notes_on_unused(setup.run)
        yield _start(setup, path, None, user, notes), attempt


def refuse_taken(run: Run, path: Path) -> None:
    """Refuses a directory that the run may not write to; `overwrite` allows a run's."""
    refuse = contents.refuse_foreign if run.overwrite else contents.refuse_run
    refuse(path)


def _start(
    setup: AnySetup, path: Path, saved: Saved | None, user: UserCode, notes: list[str]
) -> Start:
    run = setup.run
    records = run.video_every and mpi.rank() == 0
    after_epoch = [RecordVideo(run, path)] if records else []
    callbacks = Callbacks.from_run(run, user)
    return Start(setup, path, saved, notes, callbacks, after_epoch)


def _claimed(
    path: Path, instead: str = directory.OTHER_PLACE
) -> contextlib.AbstractContextManager[None]:
    """Rank 0 locks the directory: it alone writes there."""
    return contextlib.nullcontext() if mpi.rank() else directory.locked(path, instead)


def _run(start: Start, attempt: Attempt, screen: bool) -> Result:
    """To the end or a signal, with its status kept up to date."""
    with noting(start, attempt):
        result = session.run(start, screen)
    note_end(start, attempt, result)
    return result


@contextlib.contextmanager
def noting(start: Start, attempt: Attempt) -> Iterator[None]:
    """Notes in the status that it is running; says of a failed disk what is saved."""
    run, saved = start.setup.run, start.saved
    attempt.start(saved.content["env_steps"] if saved else 0, run.total_steps)
    try:
        yield
    except OSError as error:
        reason = f"{status.describe(error)}; {_what_is_saved(start.path)}"
        raise OSError(reason) from error
    finally:
        attempt.step = start.setup.progress.env_steps


def note_end(start: Start, attempt: Attempt, result: Result) -> None:
    """Notes how it ended, if by itself or by a signal."""
    progress = start.setup.progress
    if progress.is_complete(start.setup.run.total_steps):
        finished = Status(state="finished", exit_code=0)
        by, reason = progress.stopped_by, progress.stop
        attempt.end(dataclasses.replace(finished, stopped_by=by, reason=reason))
    elif result.stopped_by:
        stopped = Status.from_signal(result.stopped_by)
        reason = f"{stopped.reason} and saved"
        attempt.end(dataclasses.replace(stopped, reason=reason))


def _what_is_saved(path: Path) -> str:
    """After a failure of the disk, in words."""
    step = checkpoint.saved_step(path)
    if step is None:
        return "nothing is saved"
    return f"step {step} is saved; continue with jaxrl resume {shlex.quote(str(path))}"


def resume(
    path: Path | str,
    steps: int | None = None,
    screen: bool = True,
    user: UserCode = NONE,
    wandb: bool = False,
    changed_code: bool = False,
) -> Result:
    """Continues from the newest good checkpoint, bit for bit.

    `steps` replaces the total number of steps; a run that a callback has finished
    continues only with it. Only with `wandb` is anything sent to Weights & Biases,
    because the run may be a stranger's. With `changed_code`, a user's algorithm may be
    another than the run was started with.
    """
    options = ResumeOptions(steps, wandb, changed_code)
    with resumed(Path(path), options, user) as (start, attempt):
        return _run(start, attempt, screen)


class ResumeOptions(NamedTuple):
    """What can be given beside the directory; see `resume`."""

    steps: int | None = None
    wandb: bool = False
    changed_code: bool = False


@contextlib.contextmanager
def resumed(
    path: Path,
    options: ResumeOptions,
    user: UserCode = NONE,
    shared: SharedEngine | None = None,
) -> Iterator[Started]:
    """A run that was begun, prepared to continue."""
    steps, wandb, changed_code = options
    user.check()
    config = directory.config_text(path)
    before = status.read(path / status.FILE)
    claimed = _claimed(path, directory.WRITABLE_COPY)
    with claimed, Attempt(path, before, mpi.rank() == 0) as attempt:
        saved, complaints = _newest_checkpoint(path)
        texts = [config, saved.config] if saved else [config]
        code.check(path, texts, changed_code)
        run = directory.read(texts[-1])
        if saved and steps is not None:
            _refuse_other_end(path, run, saved, steps, complaints)
        end = _end(run, saved, config) if steps is None else steps
        longer, saved = _longer(run, saved, end)
        _check_callbacks(longer, saved, user)
        user = dataclasses.replace(user, env=user_env.resumed_env(longer, user.env))
        setup = prepare(dataclasses.replace(longer, wandb=wandb), user, shared)
        notes = [*complaints, *_notes(longer, saved, config)]
        if saved is None:
            setup, more = init_from.apply(setup)
            notes += more
            if mpi.rank() == 0:
                contents.reset(path)
        notes += directory.notes_on_wandb(texts[-1], wandb)
        yield _start(setup, path, saved, user, notes), attempt


def _newest_checkpoint(path: Path) -> tuple[Saved | None, list[str]]:
    """The newest good checkpoint, for all ranks, and why newer ones are not used."""
    found = (None, []) if mpi.rank() else checkpoint.newest(path)
    saved, complaints = checkpoint.broadcast(found)
    if saved is None and complaints:
        raise UserError("; ".join(["no checkpoint can be used", *complaints]))
    return saved, complaints


def _end(run: Run, saved: Saved | None, config: str) -> int | None:
    """The steps of a run that was killed while it was made longer; else None."""
    if saved is None or not is_complete(run, saved):
        return None
    return directory.extended_steps(run, config, _stopped_by(saved))


def _stopped_by(saved: Saved) -> str:
    return str(saved.content.get("stopped_by", ""))


def _longer(run: Run, saved: Saved | None, end: int | None) -> tuple[Run, Saved | None]:
    """The run and its checkpoint, with the total steps `end` and not stopped."""
    if end is None:
        return run, saved
    stopped_by = _stopped_by(saved) if saved else ""
    if saved:
        content = saved.content | {"stopped_by": "", "stop_reason": ""}
        saved = saved._replace(content=content)
    return directory.with_total_steps(run, end, stopped_by), saved


def _check_callbacks(run: Run, saved: Saved | None, user: UserCode) -> None:
    """Refuses callbacks other than those whose state is saved."""
    if saved is None:
        return
    own = saved.content.get("callbacks")
    Callbacks.from_run(run, user).check_saved(own if isinstance(own, dict) else {})


def _refuse_other_end(
    path: Path, run: Run, saved: Saved, steps: int, complaints: list[str]
) -> None:
    if steps < saved.content["env_steps"]:
        raise UserError(
            f"{path} has taken {saved.content['env_steps']} steps already; --steps "
            "is the total of the run"
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
    if _stopped_by(saved):
        step, by = saved.content["env_steps"], _stopped_by(saved)
        notes.append(
            f"the run was finished at step {step} by {by}; --steps "
            f"{max(run.total_steps, step + 1)} continues it"
        )
    elif is_complete(run, saved):
        notes.append(
            f"the run is complete ({run.total_steps} steps); --steps N trains longer"
        )
    return notes
