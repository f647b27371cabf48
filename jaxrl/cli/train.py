"""`jaxrl train ALGO --env ID [--setting value ...]`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl.algos import NAMES
from jaxrl.algos.presets import PRESETS
from jaxrl.cli import running
from jaxrl.cli.flags import first_of
from jaxrl.errors import UserError, suggestion
from jaxrl.processes.ranks import VERBOSE
from jaxrl.runs import reading, spec
from jaxrl.runs.spec import Setting

USAGE = (
    "jaxrl train ALGO --env ID [--preset NAME] [--config FILE] [--setting value ...]"
)
KINDS = {"preset": "NAME", "config": "FILE"}  # what flags beside the settings take


def main(arguments: list[str]) -> int:
    algo, given = _parse(arguments)
    if "help" in given:
        print(_help(algo, str(given.get("preset", "default"))))
        return 0
    return _train(algo, given, ["train", *arguments])


def _train(algo: str, given: dict[str, Any], words: list[str]) -> int:
    preset, env = given.pop("preset", "default"), given.pop("env", None)
    if not env or env == "true":  # a flag without a value
        raise UserError("no environment; name one, as in --env Hopper-v4")
    run = spec.make(algo, str(env), given, str(preset))
    if ranks := running.ranks_to_start(run.num_procs):
        return running.launched(words, ranks)
    running.cache_compilations()
    from jaxrl.training import train  # after the settings proved right: it is slow

    return running.report(train.train(run))


def _parse(arguments: list[str]) -> tuple[str, dict[str, Any]]:
    """The algorithm and the settings; those of a --config file give way to flags."""
    algo, words = first_of(arguments)
    flags = flags_of(words)
    if "env" in flags:
        # A module named by the user's own hand may be here; one that a file names may
        # be a stranger's.
        sys.path.insert(0, os.getcwd())
    file = _read(str(flags["config"])) if "config" in flags else {}
    named = str(file.pop("algo", ""))
    if algo and named and algo != named:
        raise UserError(f"the command says {algo}, but {flags['config']} says {named}")
    algo = algo or named
    if not algo and "help" in flags:
        algo = "help"
    if algo not in NAMES and algo != "help":
        hint = suggestion(algo.lower(), NAMES) or f"; choose {', '.join(NAMES)}"
        asked = f"there is no algorithm {algo!r}" if algo else "no algorithm"
        raise UserError(f"{asked}{hint}")
    flags.pop("config", None)
    return algo, file | flags


def flags_of(words: list[str]) -> dict[str, Any]:
    """--name value, --name=value and, of a switch, --name alone; - and _ are alike."""
    found: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        if word == "-h":
            word = "--help"
        if not word.startswith("--"):
            raise UserError(
                f"{word!r} follows no flag; settings are given as --name value"
            )
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if not equals:
            more = words and (not words[0].startswith("--"))
            value = words.pop(0) if more else value_of_none(name, KINDS)
        found[name] = value
    return found


def value_of_none(name: str, own: Mapping[str, str]) -> str:
    """What the flag alone means; only a switch may stand so.

    `own` are the command's flags beside the settings, with what each takes.
    """
    kinds = dict(own)
    for algo in NAMES:
        for known, setting in spec.known_settings(algo).items():
            if setting.hint is not bool:
                kinds[known] = spec.kind(setting.hint)
    if name in kinds:
        raise UserError(f"--{name} needs a value, as in --{name} {kinds[name]}")
    return "true"


def _read(path: str) -> dict[str, Any]:
    content = reading.yaml_in(Path(path))
    if isinstance(content, Mapping) and {"settings", "machine"} <= content.keys():
        raise UserError(
            f"{path} is of a run; jaxrl rerun {Path(path).parent} repeats it"
        )
    if not isinstance(content, Mapping):
        raise UserError(f"{path} must hold settings, one a line, as in 'gamma: 0.98'")
    return {str(name).replace("-", "_"): value for name, value in content.items()}


def _help(algo: str, preset: str) -> str:
    lines = [f"usage: {USAGE}", ""]
    if algo == "help":
        lines += [
            f"algorithms: {', '.join(NAMES)}",
            f"presets: default, {', '.join(PRESETS)}",
        ]
        lines += ["", "jaxrl train sac --help lists every setting of an algorithm"]
        return "\n".join(lines)
    titles = {"run": "the run", "data": "its data", "config": f"the algorithm {algo}"}
    known = spec.known_settings(algo, preset)
    lines += [
        "  --env ID",
        "      A gymnasium environment; module:ID imports the module first.",
    ]
    lines += [
        "  --preset NAME",
        f"      Whose defaults: default, {', '.join(PRESETS)}.",
    ]
    lines += ["  --config FILE", "      Settings from a YAML file; flags win."]
    lines += [f"  {VERBOSE}", "      Show what every process prints."]
    for owner, title in titles.items():
        lines += ["", f"{title}:"]
        for name, setting in known.items():
            if setting.owner == owner:
                lines += _help_of(name, setting)
    return "\n".join(lines)


def _help_of(name: str, setting: Setting) -> list[str]:
    default = setting.default
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
    kind = spec.kind(setting.hint)
    head = f"  --{name} {kind}".rstrip()
    suffix = "" if shown in ("", {}) else f" [{shown}]"
    return [head, f"      {setting.help}{suffix}"]
