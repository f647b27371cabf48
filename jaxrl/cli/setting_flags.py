"""The commands that take the settings of an algorithm as flags: train, grid, rerun."""

import argparse
import contextlib
from collections.abc import Sequence
from typing import Any

from jaxrl.algos import NAMES, is_file, label, presets
from jaxrl.cli import flags
from jaxrl.cli.flags import Parser
from jaxrl.errors import UserError
from jaxrl.runs import spec
from jaxrl.settings import values

ENV = (
    "gymnasium environment; module:ID imports the module first, module:NAME calls its "
    "function or class; envpool/ID by EnvPool, phys2d/ID, gymnax/ID, "
    "brax/ID and playground/ID in JAX, ale_py:ALE/Pong-v5 for Atari"
)
PRESETS = "|".join(presets.CHOICES)
PRESET = f"defaults to start from; auto: {presets.BY_FAMILY}, else default [auto]"
SETTINGS = "every setting of its algorithm, as in jaxrl train ALGO --help"
HINT = "jaxrl train sac --help lists every setting of one."
INTERNAL = ("total_updates",)  # follows from others, but may be set
NO_SETTINGS = ("env", "preset")  # which determine a run beside its settings
DURATION = "as in 90s, 30m or 2h"


def parsed(
    parser: Parser, words: Sequence[str], options: Sequence[str]
) -> dict[str, Any]:
    """The settings in the words of a command; unknown ones too, for one report of all.

    `options` are its other flags, which are left out.
    """
    given, unknown = parser.parse_some(words)
    parser.refuse_misspelt(unknown, (*NO_SETTINGS, *options))
    known = {k: x for k, x in vars(given).items() if k not in options}
    return known | {name: " ".join(several) for name, several in unknown.items()}


def train(words: Sequence[str], config: str = "") -> Parser:
    """`config` is the algorithm that a --config file names."""
    algo = flags.first_word(words) or config
    algo = algo if algo in NAMES or is_file(algo) else ""
    made = Parser(
        f"jaxrl train {algo or 'ALGO'} --env ID [--preset NAME] [--config FILE] "
        "[--setting value ...]",
        f"Trains a policy. Algorithms: {', '.join(NAMES)}, or your own .py file "
        "(jaxrl new writes one to start from). "
        + ("--no_NAME turns a switch off." if algo else HINT),
    )
    made.add_argument("algo", nargs="?", metavar="ALGO", help="algorithm, or its file")
    add = made.add_argument
    _add(made, "env", "ID", ENV)
    _add(made, "preset", PRESETS, PRESET)
    add("--config", metavar="FILE", help="settings in YAML; flags override it")
    seeds = "seeds of a JAX environment in one program, as in 16, or as in 3,5,8"
    _add(made, "seeds", "N|LIST", seeds)
    add_verbose(made)
    preset = flags.peek(words, "--preset") or presets.AUTO
    preset = presets.resolve(preset, algo, flags.peek(words, "--env") or "")
    _add_settings(made, algo, preset)
    return made


def grid(words: Sequence[str]) -> Parser:
    """Its settings take several values each."""
    algo = flags.first_word(words)
    made = Parser(
        "jaxrl grid FILE.yaml [OPTION ...]\n"
        "       jaxrl grid ALGO ... --env ID ... [--setting value ...] [OPTION ...]",
        "Runs every combination of the values of its settings, several at a time, each "
        "in its own process; those of a JAX environment that differ only in seeds and "
        "real-valued settings, in one program. Rerunning skips finished runs, resumes "
        "interrupted ones and retries failed ones. --setting[xyz] value ... gives a "
        "setting another short name. With --launcher slurm the runs are a Slurm job "
        "array; Ctrl-C stops monitoring, the jobs keep running, and the same command "
        f"shows them again. Settings: {SETTINGS}, with one value or several.",
    )
    add = made.add_argument
    add("grid", nargs="*", metavar="FILE|ALGO", help="what to run")
    _add(
        made, "algo", "ALGO", "algorithms, which must all have the settings given", "+"
    )
    name = "name of the grid and its directory [the file's name, or ALGO]"
    add("--name", metavar="NAME", help=name)
    add_jobs(made, "runs at a time, one thread each [as many as the cores allow]")
    add("--out", metavar="DIR", help="directory that holds grids [runs]")
    add("--dry_run", action="store_true", help="show variants and estimate the time")
    limit = f"stop and save a run after this time, {DURATION} [none]"
    add("--time_limit", type=flags.duration, default=0, metavar="TIME", help=limit)
    retries = "times that a failed run is retried at once [0]"
    add("--retries", type=flags.seed, default=0, metavar="N", help=retries)
    overwrite = "remove runs whose settings have changed"
    add("--overwrite", action="store_true", help=overwrite)
    pack = "start a process for each run, also where one program can train several"
    add("--no_pack", action="store_true", help=pack)
    launcher = "this machine, or Slurm with the file's `slurm:` options [local]"
    made.add_choice("--launcher", ("local", "slurm"), launcher, "local")
    _add(made, "env", "ID", ENV, "+")
    _add(made, "preset", "NAME", f"{PRESETS}: {PRESET}", "+")
    _add_settings(made, algo, several=True)
    return made


def several(given: dict[str, Any]) -> dict[str, list[str]]:
    """The values of a grid's flags; each flag may be given once."""
    for name, lists in given.items():
        if len(lists) > 1:
            raise UserError(f"--{name} is given twice; name all its values once")
    return {name: lists[0] or [flags.ON] for name, lists in given.items()}


def rerun(words: Sequence[str]) -> Parser:
    """Its settings are those of the run's algorithm."""
    made = Parser(
        "jaxrl rerun DIR [--seed N] [--exp_name NAME] [--setting value ...]",
        "Starts the run in DIR again from its config.yaml, with changed settings: "
        "beside it with another seed, or else as the experiment NAME "
        f"[<exp_name>-rerun]. Settings: {SETTINGS}.",
    )
    made.add_argument("dir", metavar="DIR", help="directory of a run")
    add_verbose(made)
    # A stranger's run names the file: it is not imported to read its settings.
    _add_settings(made, _algorithm_in(flags.first_word(words)), execute=False)
    return made


def _algorithm_in(directory: str) -> str:
    """Of the run in the directory, if one can be read there."""
    if directory:
        from jaxrl.runs import reading

        with contextlib.suppress(ValueError):
            return str(reading.record(directory).config["algo"])
    return ""


def _add_settings(
    made: Parser,
    algo: str,
    preset: str = presets.DEFAULT,
    several: bool = False,
    execute: bool = True,
) -> None:
    """Those of an algorithm, in groups; without one, those of all, not in the help.

    Without `execute` a user's file is only read.
    """
    titles = {"run": "run", "data": "data", "config": f"algorithm {label(algo)}"}
    groups = {owner: made.add_argument_group(title) for owner, title in titles.items()}
    known: dict[str, spec.Setting] = {}
    one = algo in NAMES or is_file(algo)
    for name in [algo] if one else NAMES:
        with contextlib.suppress(ValueError):  # which `make` explains
            known |= spec.known_settings(name, preset, execute)
    taken = {action.dest for action in made._actions}
    for name, setting in known.items():
        visible = one and name not in INTERNAL
        if name not in taken:
            _add_setting(groups[setting.owner], name, setting, several, visible)


def _add_setting(
    group: Any, name: str, setting: spec.Setting, several: bool, visible: bool
) -> None:
    default = values.shown(setting.default)
    text = f"{setting.help} [{default}]" if default else setting.help
    text = text.replace("%", "%%") if visible else argparse.SUPPRESS
    count = ("*", "+") if several else ("?", None)
    nargs = count[0] if setting.hint is bool else count[1]
    _add(group, name, values.kind(setting.hint), text, nargs)


def _add(group: Any, name: str, kind: str, text: str, nargs: str | None = None) -> None:
    """A flag that is absent where it is not given; of several values, a list of lists.

    One given twice then differs from one with two values.
    """
    options: dict[str, Any] = {"metavar": kind, "help": text, "nargs": nargs}
    options |= {"const": flags.ON} if nargs == "?" else {}
    options |= {"action": "append"} if nargs in ("*", "+") else {}
    group.add_argument(f"--{name}", default=argparse.SUPPRESS, **options)


def add_jobs(made: Parser, text: str) -> None:
    made.add_argument("--jobs", type=flags.count, default=0, metavar="N", help=text)


def add_verbose(made: Parser) -> None:
    """Taken by `jaxrl.cli.main` before a command sees it."""
    text = "show what every process prints"
    made.add_argument("--verbose_ranks", action="store_true", help=text)
