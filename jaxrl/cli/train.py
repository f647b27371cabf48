"""`jaxrl train ALGO --env ID [--setting value ...]`."""

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl import yaml_lines
from jaxrl.algos import NAMES, is_file, presets
from jaxrl.cli import flags, lists, running, setting_flags
from jaxrl.errors import UserError, unknown
from jaxrl.experiments import values
from jaxrl.experiments.mistakes import Mistakes
from jaxrl.processes import mpirun
from jaxrl.runs import nested, spec
from jaxrl.runs.spec import Run
from jaxrl.yaml_lines import Place

OPTIONS = ("algo", "config", "seeds", "verbose_ranks")  # which are not settings


def main(arguments: list[str]) -> int:
    arguments = lists.joined(arguments)
    path = flags.peek(arguments, "--config") or ""
    document = _read(path)
    located = nested.located(document.data, path, document.lines)
    file = {name: value for name, (value, _) in located.items()}
    places = {name: place for name, (_, place) in located.items()}
    in_file = file.pop("algo", "")
    if lists.several("algo", several := flags.first_word(arguments) or in_file):
        of_all = setting_flags.parsed(
            setting_flags.train(arguments), arguments, OPTIONS
        )
        lists.refuse_in_train(several, file | of_all)
    algo = _algorithm(arguments, str(in_file), document, places)
    parser = setting_flags.train(arguments, algo)
    in_line = setting_flags.parsed(parser, arguments, OPTIONS)
    given = file | in_line
    lists.refuse_in_train(algo, given)
    preset, env = given.pop("preset", presets.AUTO), given.pop("env", None)
    own = {name: x for name, x in located.items() if name not in in_line}
    _check_file(path, document, algo, own)
    if not env:
        raise UserError("missing environment; name one, as in --env Hopper-v4")
    if flags.peek(arguments, "--env") or flags.peek(arguments, "--networks"):
        # Only a module that the user names may be imported from here: one that a file
        # names may be a stranger's.
        sys.path.insert(0, os.getcwd())
    run = spec.make(algo, str(env), given, str(preset))
    if (seeds := flags.peek(arguments, "--seeds")) is not None:
        return _train_seeds(run, seeds)
    from jaxrl.runs.directory import run_path

    if ranks := mpirun.ranks_to_start(run.num_procs):
        return running.launched(["train", *arguments], run_path(run), ranks)
    running.cache_compilations()
    from jaxrl.training import train  # after the settings proved right: it is slow

    return running.report(train.train(run), run.env, run.networks, run.wandb)


def _train_seeds(run: Run, seeds: str) -> int:
    """Of one run, several seeds in one program."""
    from jaxrl.runs import packing

    runs = [dataclasses.replace(run, seed=x) for x in packing.seeds(seeds, run.seed)]
    running.cache_compilations()
    from jaxrl.training import packed

    return running.report_all(packed.train_all(runs), run.env, run.networks)


def _algorithm(
    words: list[str],
    in_file: str,
    document: yaml_lines.Document,
    places: Mapping[str, Place],
) -> str:
    """The one that the command or a --config file names."""
    algo, file = flags.first_word(words), flags.peek(words, "--config") or ""
    if algo and in_file and algo != in_file:
        raise UserError(f"the command says {algo}, but {file} says {in_file}")
    if not algo and not in_file:
        names = ", ".join(NAMES)
        raise UserError(f"missing algorithm; choose {names}, or name a .py file")
    if algo and algo not in NAMES and not is_file(algo):
        raise UserError(unknown("algorithm", algo, NAMES))
    fault = values.value_fault("algo", algo or in_file, [])
    if algo and fault:
        raise UserError(fault)
    mistakes = Mistakes(document.lines)
    mistakes.add(places.get("algo", ()), fault)
    mistakes.raise_any(file)
    return algo or in_file


def _read(path: str) -> yaml_lines.Document:
    """The settings in a file; none without one."""
    if not path or path.startswith("--"):
        return yaml_lines.Document({}, {}, [])
    document = yaml_lines.read(path)
    if {"settings", "machine"} <= document.data.keys():
        raise UserError(
            f"{path} belongs to a run; jaxrl rerun {Path(path).parent} repeats it"
        )
    return document


def _check_file(
    path: str,
    document: yaml_lines.Document,
    algo: str,
    located: Mapping[str, tuple[Any, Place]],
) -> None:
    """Refuses a file with mistakes, each with its line; flags replace its settings."""
    mistakes = Mistakes(document.lines, document.mistakes)
    for name, (value, place) in located.items():
        mistakes.add(place, values.value_fault(name, value, [algo]))
    mistakes.raise_any(path)
