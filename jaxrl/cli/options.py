"""The options of every command; importing them does not import JAX."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxrl.algos import NAMES
from jaxrl.cli import flags, setting_flags
from jaxrl.cli.flags import Parser
from jaxrl.cli.setting_flags import DURATION, add_jobs, add_verbose
from jaxrl.runs.spec import MODELS

Adder = Callable[[Parser], Any]


def parser(command: str, words: Sequence[str] = ()) -> Parser:
    """Of a command; the words after it tell which algorithm's settings it takes."""
    if command in WITH_SETTINGS:
        return WITH_SETTINGS[command](words)
    usage, description, adders = OPTIONS[command]
    made = Parser(f"jaxrl {command} {usage}", description)
    for add in adders:
        add(made)
    return made


# Options that several commands have


def _option(*names: str, **options: Any) -> Adder:
    return lambda made: made.add_argument(*names, **options)


def _switch(name: str, text: str) -> Adder:
    return _option(name, action="store_true", help=text)


def _number(text: str, *names: str, default: int | None = None) -> Adder:
    text = text if default is None else f"{text} [{default}]"
    kind = flags.seed if default == 0 else flags.count
    return _option(*names, type=kind, default=default, metavar="N", help=text)


def _episodes(default: int) -> Adder:
    # The first is the name in training; the others are Spinning Up's.
    names = ("--num_test_episodes", "--episodes", "-n")
    return _number("number of episodes", *names, default=default)


def _output(default: str) -> Adder:
    kinds = {
        "type": Path,
        "default": Path(default),
        "help": f"file to write [{default}]",
    }
    return _option("-o", "--output", metavar="FILE", **kinds)


def _paths(nargs: str, text: str) -> Adder:
    return _option("paths", nargs=nargs, metavar="PATH", help=text)


RUN = _option("dir", metavar="DIR", help="directory of a run")
MODEL = _option(
    "--model",
    type=flags.model,
    metavar="|".join((*MODELS, "STEP")),
    default="last",
    help="which of its models; the best has the highest return [last]",
)
MAX_LEN = _number("maximum steps per episode", "--max_len")
SEED = _number("seed of the episodes", "--seed", default=0)
ALGO = _option(
    "--algo",
    metavar="FILE",
    default="",
    help="run this file, for an algorithm of yours whose act NumPy cannot play",
)
RUNS = "runs, directories of runs, or globs"


# Commands


def _add_search(made: Parser) -> None:
    add = made.add_argument
    add("file", metavar="FILE", help="the search space and fixed settings, in YAML")
    add("--trials", type=flags.count, metavar="N", help="total number of trials")
    add_jobs(made, "trials at a time [as many as the cores allow]")
    add("--out", metavar="DIR", help="directory that holds searches [runs]")
    limit = f"stop a trial after this time, {DURATION} [none]"
    add("--time_limit", type=flags.duration, default=0, metavar="TIME", help=limit)


def _add_way_to_act(made: Parser) -> None:
    add = made.add_mutually_exclusive_group().add_argument
    add(
        "--deterministic",
        action="store_true",
        default=True,
        help="act greedily (default)",
    )
    add("--stochastic", action="store_false", dest="deterministic", help="explore")


def _add_shells(made: Parser) -> None:
    made.add_choice("shell", ("bash", "zsh", "fish"), "the shell to complete in")


def _add_plot(made: Parser) -> None:
    """What is drawn, and how."""
    from jaxrl.show import curves
    from jaxrl.show.plot import BANDS
    from jaxrl.show.statistics import ESTIMATORS

    _add_selection(made, curves.PERFORMANCE)
    add = made.add_argument
    add(
        "-x",
        metavar="COLUMN",
        default=curves.STEPS,
        help=f"column on the x axis [{curves.STEPS}]",
    )
    add(
        "--smooth",
        type=flags.count,
        default=1,
        metavar="N",
        help="moving average over N rows [1]",
    )
    made.add_choice("--est", ESTIMATORS, "the line, over runs [mean]", "mean")
    bands = "around it: 95 %% bootstrap interval, standard deviation, extremes [ci]"
    made.add_choice("--band", BANDS, bands, "ci")
    add("--count", action="store_true", help="draw every run separately")
    facet = "setting with a panel for each value, or none [env]"
    add("--facet", metavar="SETTING", default="env", help=facet)
    ref = "also draw Spinning Up's published curves"
    made.add_choice("--ref", ["spinup"], ref)
    file = "a .png, .svg or .pdf [curves.png, or suite.png]"
    add("-o", "--output", type=Path, metavar="FILE", help=file)
    suite = "aggregates over environments instead of curves: IQM, performance "
    suite += "profiles, probability of improvement"
    add("--suite", action="store_true", help=suite)
    add("--show", action="store_true", help="open a window; write a file only with -o")


def _add_selection(made: Parser, performance: str) -> None:
    """What is drawn."""
    columns = f"columns of progress.csv; {performance} is the return of the test "
    columns += f"episodes, or else of the training's [{performance}]"
    matching = "globs of runs' names or paths, or setting=value"
    together = "settings that the runs of a curve have in common [exp_name]"
    for name, kind, default, sentence in (
        ("-y", "COLUMN", [performance], columns),
        ("--group", "SETTING", ["exp_name"], together),
        ("--select", "GLOB", [], f"only these runs: {matching}"),
        ("--exclude", "GLOB", [], "leave these runs out; globs or setting=value"),
        ("--legend", "NAME", [], "other names for the curves, in their order"),
    ):
        made.add_argument(name, nargs="+", metavar=kind, default=default, help=sentence)


OPTIONS: dict[str, tuple[str, str, Sequence[Adder]]] = {
    "search": (
        "FILE.yaml [--trials N] [--jobs N] ...",
        "Searches for good settings; each trial is a run like any other. The same "
        "command continues an interrupted search.",
        [_add_search],
    ),
    "resume": (
        "DIR ... [--steps N] [--wandb] [--changed-code]",
        "Continues a run from its last checkpoint, with the same results as an "
        "uninterrupted run. Several runs in JAX environments that differ only in seeds "
        "and real-valued settings continue in one program.",
        [
            _option("dirs", nargs="+", metavar="DIR", help="directory of a run"),
            _number("total steps of the run, to train longer than planned", "--steps"),
            _switch("--wandb", "log to Weights & Biases; config.yaml cannot set it"),
            _switch("--changed_code", "continue with your algorithm's changed file"),
            add_verbose,
        ],
    ),
    "verify": (
        "DIR [--epochs K]",
        "Trains the first epochs of a run again, elsewhere, and compares every cell of "
        "progress.csv except the times, and the state. Exit code 0: identical; 1: "
        "different; 2: it cannot be verified. Changes nothing in DIR. An environment "
        "named module:ID is imported, and an algorithm's own file is run.",
        [
            RUN,
            _number("epochs to repeat [about a minute's worth]", "--epochs"),
            _option("--into", metavar="DIR", help=argparse.SUPPRESS),
            add_verbose,
        ],
    ),
    "eval": (
        "DIR [--num_test_episodes N] [--stochastic] [--render] [--json] ...",
        "Plays episodes with the policy of a run, in the run's environment.",
        [
            *(RUN, MODEL, _episodes(100)),
            *(MAX_LEN, SEED, _add_way_to_act, ALGO),
            _switch("--render", "show the episodes in a window"),
            _switch("--json", "print one line of JSON instead"),
        ],
    ),
    "video": (
        "DIR [-o agent.mp4|agent.gif] [--num_test_episodes N] ...",
        "Records a video of a run's policy in its environment; needs no display.",
        [
            *(RUN, MODEL, _output("agent.mp4")),
            *(_episodes(1), MAX_LEN, SEED, ALGO),
        ],
    ),
    "plot": (
        "PATH... [-y COLUMN ...] [-o FILE] [--show] ...",
        "Draws learning curves: runs of one name are averaged, with a band around "
        "them; each environment and column has its own panel.",
        [_paths("+", RUNS), _add_plot],
    ),
    "report": (
        "PATH... [-o report.html]",
        "Writes one page for the browser, which needs no network: a table of the runs, "
        "their curves, settings, machines and videos, and why some failed.",
        [_paths("+", RUNS), _output("report.html")],
    ),
    "ls": (
        "[PATH ...] [--json]",
        "Lists runs: status, steps, last and best return, time since the last write, "
        "and size.",
        [_paths("*", f"{RUNS} [runs]"), _switch("--json", "print JSON instead")],
    ),
    "doctor": (
        "[--out DIR]",
        "Checks versions, devices, MPI, rendering and the output directory, and trains "
        "for some seconds.",
        [
            _option(
                "--out",
                type=Path,
                metavar="DIR",
                default="runs",
                help="directory that would hold the runs [runs]",
            )
        ],
    ),
    "new": (
        "FILE.py --from ALGO",
        "Writes a copy of an algorithm, to change and to train with: jaxrl train "
        "./FILE.py --env ID.",
        [
            _option("file", metavar="FILE", help="file to write, as in my_sac.py"),
            lambda made: made.add_choice("--from", NAMES, "the algorithm to copy"),
        ],
    ),
    "check": (
        "FILE.py",
        "Runs the contracts of an algorithm on your file: the six names, purity, "
        "compilation, vmap, scan, donation, two devices and five probe environments. "
        "Prints a line for each; takes one or two minutes.",
        [_option("file", metavar="FILE", help="an algorithm's file, or a name")],
    ),
    "exercise": (
        "[NUMBER] [--write FILE.py | --check FILE.py]",
        "Lists the exercises, or prints the task of one. Four are functions to write: "
        "a Gaussian's log-likelihood, GAE, PPO's loss and TD3's target; three are "
        "broken algorithms to mend.",
        [
            _option("number", nargs="?", metavar="NUMBER", help="of the exercise"),
            _option("--write", metavar="FILE", help="write the file to start from"),
            _option("--check", metavar="FILE", help="say what is wrong with a file"),
        ],
    ),
    "export": (
        "DIR [-o policy.npz|policy.onnx] [--overwrite] ...",
        "Writes the policy of a run, with its normaliser and action bounds, as one "
        "file: .npz for jaxrl.policy.Policy.load, which needs only NumPy, or .onnx.",
        [
            *(RUN, MODEL, _output("policy.npz")),
            _switch("--overwrite", "replace a file that holds another policy"),
        ],
    ),
    "completion": (
        "bash|zsh|fish",
        "Prints a script that completes commands, algorithms and flags. For bash: "
        'eval "$(jaxrl completion bash)" in ~/.bashrc; for zsh the same in ~/.zshrc; '
        "for fish: jaxrl completion fish > ~/.config/fish/completions/jaxrl.fish",
        [_add_shells],
    ),
}
WITH_SETTINGS: dict[str, Callable[[Sequence[str]], Parser]] = {
    "train": setting_flags.train,
    "grid": setting_flags.grid,
    "rerun": setting_flags.rerun,
}
