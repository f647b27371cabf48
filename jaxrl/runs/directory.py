"""The directory of a run: its lock, config.yaml and models."""

import contextlib
import dataclasses
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import yaml

from jaxrl import algos, files
from jaxrl.algos import presets
from jaxrl.algos.presets import DEFAULT, PRESETS
from jaxrl.errors import UserError
from jaxrl.runs import contents
from jaxrl.runs.machine import machine
from jaxrl.runs.reading import CONFIG, LOCK, LOGGER, determining
from jaxrl.runs.spec import OWN, Run, known_settings, make
from jaxrl.yaml_lines import parsed

OTHER_PLACE = "choose another --out"
WRITABLE_COPY = "make it writable, or copy the run and resume the copy"
STOPS = ("stop_return", "stop_without_improvement")
"""Settings that can finish a run before its last step."""


def run_path(run: Run) -> Path:
    """The directory of a run."""
    return Path(run.out) / run.exp_name / f"{run.exp_name}_s{run.seed}"


@contextlib.contextmanager
def locked(path: Path, instead: str = OTHER_PLACE) -> Iterator[None]:
    """Keeps all other processes out; leaves nothing where no run was started.

    `instead` is what a user can do where nothing can be written.
    """
    made = [p for p in (path, *path.parents) if not os.path.exists(p)]
    is_new = not os.path.lexists(path / LOCK)
    lock = _lock(path, instead)
    try:
        contents.refuse_links(path)
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
            entries = os.listdir(path)
            if entries == [LOCK] or (is_new and not contents.is_of_a_run(path)):
                (path / LOCK).unlink()
            if entries == [LOCK]:
                for directory in made:
                    directory.rmdir()
        os.close(lock)


def _lock(path: Path, instead: str) -> int:
    """Retries: a command that only checks the lock holds it for a moment."""
    for _ in range(5):
        try:
            lock = _try_lock(path)
        except FileNotFoundError as error:  # or removed by another in between
            reason: object = error.strerror
        except UserError:
            raise
        except (OSError, ValueError) as error:
            raise _unwritable(path, error, instead) from None
        else:
            reason = None
            if lock is not None:
                return lock
        time.sleep(0.05)
    if reason:
        raise _unwritable(path, reason, instead)
    raise UserError(f"another process is writing {path}; wait until it ends")


def _unwritable(path: Path, reason: object, instead: str) -> UserError:
    reason = getattr(reason, "strerror", None) or reason
    return UserError(f"cannot write to {path}: {reason}; {instead}")


def _try_lock(path: Path) -> int | None:
    """The open lock, or None if another process holds it or has just removed it."""
    path.mkdir(parents=True, exist_ok=True)
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    lock = os.open(path / LOCK, flags)
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        raise UserError(
            f"cannot write to {path}: its {LOCK} is not a regular file; remove {LOCK}"
        )
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_ino == os.stat(path / LOCK).st_ino:
            return lock
    os.close(lock)
    return None


def same_settings(one: str, two: str) -> bool:
    """Whether two texts of a config.yaml describe runs with the same results."""
    try:
        both = [parsed(text) for text in (one, two)]
        ends = [determining(config) | {"steps": 0} for config in both]
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    # A later version has more settings, whose defaults are what there was before.
    common = ends[0].keys() & ends[1].keys()
    return all(ends[0][name] == ends[1][name] for name in common)


def settings_in(text: str) -> dict[str, Any]:
    """The settings in a config.yaml on which results depend; {} if it has none."""
    try:
        return determining(parsed(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def config_text(path: Path) -> str:
    """The config.yaml of a run."""
    try:
        return files.read_text(path / CONFIG, files.SETTINGS, inside=path)
    except (OSError, UnicodeDecodeError):
        raise UserError(
            f"{path} holds no run: it has no {CONFIG} that can be read"
        ) from None


def read(text: str, algo: str = "", **changes: Any) -> Run:
    """The run that a config.yaml describes, with changes, and with another `algo`.

    Whether something is removed, or sent over the network, is up to the user, and not
    to a file.
    """
    try:
        known = parsed(text)
        if known.get("logged_by") == LOGGER:
            raise UserError(
                f"the run was logged by {LOGGER}; start its own program again"
            )
        given = {name: known[name] for name in OWN if name in known}
        given |= {k: x for k, x in known["settings"].items() if k not in OWN}
        for name in ("overwrite", "wandb"):
            given.pop(name, None)
        given |= changes
        algo, env = algo or known["algo"], known["env"]
        source = _source({} if "init_from" in changes else known)
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError("config.yaml does not describe a run") from None
    # What the file leaves out, as those of earlier versions do, has the plain default.
    run = dataclasses.replace(make(algo, env, given), init_source=source)
    preset = str(known.get("preset", DEFAULT))
    usable = algo in PRESETS.get(preset, {})
    return dataclasses.replace(run, preset=preset) if usable else run


def _source(known: Mapping[str, Any]) -> dict[str, Any]:
    """Where a run's parameters came from, by its config.yaml."""
    source = known.get("init_source", {})
    kinds = {"path": str, "step": int, "sha256": str}
    if source and {k: type(x) for k, x in source.items()} != kinds:
        raise ValueError
    return dict(source)


def notes_on_wandb(text: str, wandb: bool) -> list[str]:
    """Says that a config.yaml asks for what only the user can."""
    if wandb or not parsed(text).get("wandb"):
        return []
    return ["config.yaml asks for Weights & Biases; nothing is sent without --wandb"]


def notes_on_unused(run: Run) -> list[str]:
    """Says which settings do nothing."""
    names = ("wandb_tags", "wandb_notes", "wandb_models")
    given = [f"--{name}" for name in names if getattr(run, name)]
    found = [f"{x} does nothing without --wandb" for x in given if not run.wandb]
    if run.networks and run.algo in algos.NAMES:
        unused = ", ".join(_unused_by_networks(run))
        found += [f"{unused} does nothing: the networks are your own"] if unused else []
    return found


def _unused_by_networks(run: Run) -> list[str]:
    """Settings of jaxrl's own networks that are neither a default nor a preset's."""
    known = [name for name, own in presets.PRESETS.items() if run.algo in own]
    usual = [known_settings(run.algo, preset) for preset in ("default", *known)]
    found = []
    for name in ("hidden", "activation", "initializer", "encoder"):
        value = getattr(run.config, name, None)
        defaults = [each[name].default for each in usual if name in each]
        # `mlp` also decides that images are normalised.
        if defaults and value not in (*defaults, "mlp"):
            found.append(name)
    return found


def with_total_steps(run: Run, steps: int, stopped_by: str = "") -> Run:
    """The run made longer; a decay over the whole run is stretched with it.

    If one of its settings stopped it, that setting has its default from here on.
    """
    given = settings(run)
    own = {name: given[name] for name in OWN if name in given} | given["settings"]
    if own.get("total_updates") == run.total_steps / run.data.steps_per_epoch:
        del own["total_updates"]
    if stopped_by in STOPS:
        own.pop(stopped_by)
    longer = make(run.algo, run.env, own | {"steps": steps})
    return dataclasses.replace(longer, init_source=run.init_source, preset=run.preset)


def extended_steps(run: Run, config: str, stopped_by: str = "") -> int | None:
    """The steps in a config.yaml that describes this run made longer, or None."""
    try:
        now = read(config)
    except UserError:
        return None
    if not now.steps or settings(now) == settings(run):
        return None
    if now.steps <= run.total_steps and not stopped_by:
        return None
    longer = with_total_steps(run, now.steps, stopped_by)
    return now.steps if settings(longer) == settings(now) else None


def extensions(config: str, step: int, run: Run) -> dict[str, Any]:
    """For config.yaml: when the run was made longer, and its total steps before.

    `config` is that of the checkpoint at `step`, from which `run` continues.
    """
    known = parsed(config).get("extended")
    known = known if isinstance(known, list) else []  # a stranger's can be anything
    before = read(config).total_steps
    if before != run.total_steps:
        known = [*known, {"step": step, "total_steps": before}]
    return {"extended": known} if known else {}


def config_yaml(described: dict[str, Any]) -> str:
    """The text of config.yaml."""
    return yaml.safe_dump(described, sort_keys=False)


def description(run: Run) -> dict[str, Any]:
    """Everything that determines the run, and what it ran on."""
    devices = [device.device_kind for device in jax.devices()]
    return settings(run) | {"machine": machine(devices)}


def settings(run: Run) -> dict[str, Any]:
    """All that a user can set, as in config.yaml."""
    own = {
        field.name: getattr(run, field.name)
        for field in dataclasses.fields(run)
        if field.name not in ("data", "config", "overwrite", "init_source")
    }
    usual = {"algo_sha256": "", "networks": "", "preset": DEFAULT}
    own = {name: x for name, x in own.items() if x != usual.get(name)}
    own |= {"init_source": run.init_source} if run.init_source else {}
    inner = vars(run.data) | vars(run.config)
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in inner.items()}
    return own | {"settings": plain}


def video_path(run: Path, step: int) -> Path:
    """The video of that step's model; the names sort by step."""
    return run / "videos" / f"step-{step:09}.mp4"


def prune_after(run: Path, step: int) -> None:
    """Removes models and videos of later steps, which the run will make again.

    Also what was being written when the run was killed.
    """
    for place in (run, run / "models", run / "videos", run / "replay"):
        files.remove_unfinished(place)
    for model in (run / "models").glob("*"):
        if model.name.isdecimal() and int(model.name) > step:
            files.remove(model)
    for video in (run / "videos").glob("step-*.mp4"):
        if video.name > video_path(run, step).name:
            files.remove(video)
