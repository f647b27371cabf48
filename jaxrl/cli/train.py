"""`jaxrl train ALGO --env ID [--setting value ...]`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl.algos import NAMES, is_file
from jaxrl.cli import flags, running, setting_flags
from jaxrl.errors import UserError, unknown
from jaxrl.runs import spec

OPTIONS = ("algo", "config", "verbose_ranks")  # which are not settings


def main(arguments: list[str]) -> int:
    file = _read(flags.peek(arguments, "--config"))
    algo = _algorithm(arguments, str(file.pop("algo", "")))
    parser = setting_flags.train(arguments, algo)
    given = file | setting_flags.parsed(parser, arguments, OPTIONS)
    preset, env = given.pop("preset", "default"), given.pop("env", None)
    if not env:
        raise UserError("missing environment; name one, as in --env Hopper-v4")
    if flags.peek(arguments, "--env") or flags.peek(arguments, "--networks"):
        # Only a module that the user names may be imported from here: one that a file
        # names may be a stranger's.
        sys.path.insert(0, os.getcwd())
    run = spec.make(algo, str(env), given, str(preset))
    if ranks := running.ranks_to_start(run.num_procs):
        return running.launched(["train", *arguments], ranks)
    running.cache_compilations()
    from jaxrl.training import train  # after the settings proved right: it is slow

    return running.report(train.train(run))


def _algorithm(words: list[str], in_file: str) -> str:
    """The one that the command or a --config file names."""
    algo = flags.first_word(words)
    if algo and in_file and algo != in_file:
        file = flags.peek(words, "--config")
        raise UserError(f"the command says {algo}, but {file} says {in_file}")
    algo = algo or in_file
    if algo in NAMES or is_file(algo):
        return algo
    if not algo:
        names = ", ".join(NAMES)
        raise UserError(f"missing algorithm; choose {names}, or name a .py file")
    raise UserError(unknown("algorithm", algo, NAMES))


def _read(path: str) -> dict[str, Any]:
    """The settings in a file, {} without one."""
    if not path or path.startswith("--"):
        return {}
    from jaxrl.runs import reading

    content = reading.yaml_in(Path(path))
    if isinstance(content, Mapping) and {"settings", "machine"} <= content.keys():
        raise UserError(
            f"{path} belongs to a run; jaxrl rerun {Path(path).parent} repeats it"
        )
    if not isinstance(content, Mapping):
        raise UserError(f"{path} must hold settings, one a line, as in 'gamma: 0.98'")
    return {str(name).replace("-", "_"): value for name, value in content.items()}
