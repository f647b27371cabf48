"""Which runs one compiled program can train together."""

from collections.abc import Sequence
from typing import Any

from jaxrl.algos import presets
from jaxrl.errors import UserError
from jaxrl.runs import directory
from jaxrl.runs.spec import Run, known_settings
from jaxrl.settings import is_leaf
from jaxrl.settings.values import plain

MOST = 4096  # runs in one program
OWN = ("seed", "exp_name", "out", "overwrite")  # may differ


def program_settings(run: Run) -> dict[str, Any]:
    """The settings that must be equal: all but the seed and real-valued ones."""
    known = known_settings(run.algo)
    whole = directory.settings(run)
    flat = {name: x for name, x in whole.items() if name != "settings"}
    flat |= {
        name: x
        for name, x in whole["settings"].items()
        if known[name].owner != "config" or not is_leaf(known[name].hint)
    }
    return {name: x for name, x in flat.items() if name not in OWN}


def is_packable(run: Run) -> bool:
    """Whether one process can train it with others; by name, a JAX environment."""
    one_process = run.num_procs == 1 and not run.wandb
    return one_process and presets.for_env(run.env) != presets.DEFAULT


def refuse_different(runs: Sequence[Run]) -> None:
    """Refuses runs that need different programs."""
    first = program_settings(runs[0])
    for run in runs[1:]:
        its = program_settings(run)
        if names := [x for x in first | its if first.get(x) != its.get(x)]:
            found = [f"{x} ({first.get(x)!r} and {its.get(x)!r})" for x in names]
            raise UserError(
                f"{directory.run_path(runs[0])} and {directory.run_path(run)} differ "
                f"in {', '.join(found)}; only runs that differ in seeds and "
                "real-valued settings can be trained in one program"
            )


def seeds(given: Any, first: int) -> list[int]:
    """Of `--seeds 16`, as many from `first` on, or of `--seeds 3,5,8`, those."""
    words = given.split(",") if isinstance(given, str) else given
    if isinstance(words, list | tuple) and len(words) == 1 and isinstance(given, str):
        words = words[0]
    try:
        if isinstance(words, list | tuple):
            found = [_whole(word) for word in words]
        else:
            found = list(range(first, first + min(_whole(words), MOST + 1)))
    except (TypeError, ValueError):
        found = []
    if not found or len(found) > MOST or len(set(found)) < len(found):
        raise UserError(
            f"seeds is {given!r}, but must be a number of seeds up to {MOST}, as in "
            "--seeds 16, or different seeds, as in --seeds 3,5,8 (in Python "
            "seeds=[3, 5, 8])"
        )
    return found


def _whole(value: Any) -> int:
    value = plain(value)
    number = int(value) if isinstance(value, str) else value
    if type(number) is not int or number < 0:
        raise ValueError
    return number
