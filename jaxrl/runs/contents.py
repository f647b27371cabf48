"""What is in the directory of a run: the run's own files, and a user's."""

import itertools
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from jaxrl import files
from jaxrl.errors import UserError
from jaxrl.runs import reading, status, trees
from jaxrl.runs.reading import CONFIG, LOCK, MODEL

# What a run writes, beside its settings; of a directory, the names inside of it.
WRITTEN = {
    "progress.csv": "",
    "tb": r"events\..*",
    "checkpoints": r"\d+",
    "replay": r"\d+-\d+\.npy",
    "models": r"last|best|\d+|\.(last|best|\d+)\.(new|old)",
    "videos": r"step-\d+\.mp4",
    "wandb": r".*",
    status.FILE: "",
}
FOREIGN = (
    "{0} holds files, but no run of jaxrl (no config.yaml or {1} of a run), so it is "
    "not removed; choose another --exp_name or --out"
)
HOLDS_RUN = (
    "{0} holds a run already; continue it with jaxrl resume {0}, remove it with "
    "--overwrite, or choose another --exp_name or --seed"
)


def refuse_run(path: Path, sentence: str = HOLDS_RUN) -> None:
    """Refuses a directory that holds a run already, or a user's files."""
    if _entries(path):
        raise UserError(sentence.format(path))


def refuse_foreign(path: Path, sentence: str = FOREIGN) -> None:
    """Refuses a directory that holds files, of which none is of a run."""
    if _entries(path) and not is_of_a_run(path):
        raise UserError(sentence.format(path, status.FILE))


def is_of_a_run(path: Path) -> bool:
    """Whether a run wrote its status or its settings there."""
    if status.read(path / status.FILE) is not None:
        return True
    try:
        reading.record(path)
    except UserError:
        return False
    return True


def _entries(path: Path) -> list[Path]:
    """All but the lock; a status alone is of a run that was killed as it started."""
    ours = (LOCK, status.FILE)
    return [
        entry
        for entry in path.iterdir()
        if entry.name not in ours and not entry.name.startswith(files.TEMPORARY)
    ]


def clear(path: Path) -> Path | None:
    """Removes a run; moves a user's own files aside, and returns to where."""
    kept = None
    if users := list(_users_files(path)):
        kept = new_directory(path)
        for file in users:
            place = kept / file.relative_to(path)
            place.parent.mkdir(exist_ok=True)
            file.rename(place)
    reset(path)
    files.remove(path / CONFIG)  # last: without it, nothing would say whose files
    return kept


def reset(path: Path) -> None:
    """Removes what a run wrote, but not its settings or a user's own files."""
    files.remove_unfinished(path)
    for name, inside in WRITTEN.items():
        place = path / name
        if not inside or place.is_symlink() or not place.is_dir():
            continue
        for entry in place.iterdir():
            if _is_ours(entry, inside):
                files.remove(entry)
        if not any(place.iterdir()):
            place.rmdir()
    for name, inside in WRITTEN.items():
        if not inside:
            files.remove(path / name)


def _users_files(path: Path) -> Iterator[Path]:
    """What no run writes, at the top and in the run's own directories."""
    for entry in sorted(path.iterdir()):
        if entry.name in (LOCK, CONFIG) or entry.name.startswith(files.TEMPORARY):
            continue
        if entry.name not in WRITTEN:
            yield entry
        elif (inside := WRITTEN[entry.name]) and entry.is_dir():
            inner = sorted(entry.iterdir())
            yield from (one for one in inner if not _is_ours(one, inside))


def _is_ours(entry: Path, inside: str) -> bool:
    name = entry.name
    known = bool(re.fullmatch(inside, name)) or name.startswith(files.TEMPORARY)
    return known or _is_model(entry)


def _is_model(entry: Path) -> bool:
    """Whether it is a model of a user's own loop, which may have any name."""
    if entry.is_symlink() or not entry.is_dir():
        return False
    return {file.name for file in entry.iterdir()} == {MODEL, trees.FILE}


def new_directory(run: Path) -> Path:
    """An empty one beside a run, for what is moved out of its way."""
    for number in itertools.count(1):
        kept = run.with_name(f"{run.name}.kept-{number}")
        try:
            kept.mkdir()
            return kept
        except FileExistsError:
            continue
    raise AssertionError


def refuse_links(path: Path) -> None:
    """A link could make a run write or remove files outside of its directory.

    A pipe or a device instead of a file could make it wait.
    """
    for name, inside in WRITTEN.items():
        place = path / name
        _refuse(place, stat.S_ISDIR if inside else stat.S_ISREG)
        # Weights & Biases makes links, and writes through none.
        if inside and place.is_dir() and name != "wandb":
            for entry in place.iterdir():
                _refuse(entry, lambda mode: stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _refuse(entry: Path, is_right: Callable[[int], bool]) -> None:
    try:
        mode = entry.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise UserError(f"{entry} is a link; a run writes only inside of its directory")
    if not is_right(mode):
        raise UserError(f"{entry} is not what a run writes there; remove it")
