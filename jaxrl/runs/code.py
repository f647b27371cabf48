"""A user's algorithm in a run that is continued: which file may be executed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrl.algos import is_file, user_files
from jaxrl.errors import UserError
from jaxrl.runs.reading import CODE
from jaxrl.yaml_lines import parsed


def check(run: Path, configs: Sequence[str], changed: bool) -> None:
    """Refuses, before it is imported, a file that the run was not trained with.

    `configs` are the texts of config.yaml, of the run and of its checkpoint: a run that
    was continued with a changed file has the new hash in one of them only.
    """
    known = [config for config in map(_parsed, configs) if config]
    if not any(is_file(config.get("algo")) for config in known):
        return
    if len({str(config.get("algo")) for config in known}) > 1:
        raise UserError(
            f"{run} names one algorithm in config.yaml and another in its checkpoint; "
            "it cannot be continued"
        )
    refuse_foreign(run, known[0])
    recorded = [str(config.get(CODE, "")) for config in known]
    now = user_files.digest(str(known[0]["algo"]))
    if now not in recorded and not changed:
        raise UserError(
            f"{known[0]['algo']} has changed since the run was started (SHA-256 "
            f"{user_files.short(recorded[-1])}, now {user_files.short(now)}); restore "
            "it, or continue with the changed file by --changed_code"
        )


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        config = parsed(text)
    except ValueError:  # which is explained where the settings are read
        return {}
    return config if isinstance(config, Mapping) else {}


def refuse_foreign(run: Path, config: Mapping[str, Any]) -> None:
    """Refuses an algorithm's file that may have come with the run, or is missing.

    Whoever made the run would also have made the file and the SHA-256 in config.yaml.
    """
    algo = config.get("algo")
    if not is_file(algo):
        return
    path = Path(str(algo))
    # /proc/self/cwd is the current directory by another name.
    relative = not path.is_absolute() or path.parts[1:2] in (("proc",), ("dev",))
    if relative or _lies_in(path, run):
        raise UserError(
            f"{run} names an algorithm inside its own or the current directory, "
            f"{algo}, which is not run; if you trust it, copy it elsewhere and train "
            "with it"
        )
    if not path.is_file():
        raise UserError(f"the algorithm of {run} is missing: put {path} back")


def _lies_in(file: Path, run: Path) -> bool:
    try:
        return file.resolve().is_relative_to(run.resolve())
    except (OSError, RuntimeError):  # links that lead to each other
        return True
