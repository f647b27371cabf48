"""The options of every command; importing them does not import JAX."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxrl.cli import flags
from jaxrl.cli.flags import Parser
from jaxrl.cli.setting_flags import (
    DURATION,
    add_jobs,
    add_verbose,
    grid,
    rerun,
    train,
)


def parser(command: str, words: Sequence[str] = ()) -> Parser:
    """Of a command; the words after it tell which algorithm's settings it takes."""
    return PARSERS[command](words)


# Commands about runs


def resume(words: Sequence[str]) -> Parser:
    made = Parser(
        "jaxrl resume DIR [--steps N]",
        "Continues a run from its last checkpoint, with the same results as if it had "
        "never stopped.",
    )
    made.add_argument("dir", metavar="DIR", help="directory of a run")
    steps = "total steps of the run, to train longer than planned"
    made.add_argument("--steps", type=flags.count, metavar="N", help=steps)
    add_verbose(made)
    return made


def search(words: Sequence[str]) -> Parser:
    made = Parser(
        "jaxrl search FILE.yaml [--trials N] [--jobs N] ...",
        "Searches for good settings; each trial is a run like any other. The same "
        "command continues an interrupted search.",
    )
    add = made.add_argument
    add("file", metavar="FILE", help="the search space and fixed settings, in YAML")
    add("--trials", type=flags.count, metavar="N", help="total number of trials")
    add_jobs(made, "trials at a time [as many as the cores allow]")
    add("--out", metavar="DIR", help="directory that holds searches [runs]")
    limit = f"stop a trial after this time, {DURATION} [none]"
    add("--time_limit", type=flags.duration, default=0, metavar="TIME", help=limit)
    return made


def evaluate(words: Sequence[str]) -> Parser:
    made = Parser(
        "jaxrl eval DIR [--episodes N] [--stochastic] [--render] [--json] ...",
        "Plays episodes with the policy of a run, in the run's environment.",
    )
    _add_policy(made, episodes=100)
    add = made.add_argument
    way = made.add_mutually_exclusive_group().add_argument
    way("--deterministic", action="store_true", default=True, help="greedy (default)")
    way("--stochastic", action="store_false", dest="deterministic", help="exploring")
    add("--render", action="store_true", help="show the episodes in a window")
    add("--json", action="store_true", help="print one line of JSON instead")
    return made


def video(words: Sequence[str]) -> Parser:
    made = Parser(
        "jaxrl video DIR [-o agent.mp4|agent.gif] [--episodes N] ...",
        "Records a video of a run's policy in its environment; needs no display.",
    )
    _add_output(made, "agent.mp4")
    _add_policy(made, episodes=1)
    return made


def export(words: Sequence[str]) -> Parser:
    made = Parser(
        "jaxrl export DIR [-o policy.npz|policy.onnx] [--overwrite] ...",
        "Writes the policy of a run, with its normaliser and action bounds, as one "
        "file: .npz for jaxrl.policy.Policy.load, which needs only NumPy, or .onnx.",
    )
    _add_model(made)
    _add_output(made, "policy.npz")
    replace = "replace a file that holds another policy"
    made.add_argument("--overwrite", action="store_true", help=replace)
    return made


def report(words: Sequence[str]) -> Parser:
    made = Parser(
        "jaxrl report PATH... [-o report.html]",
        "Writes one page for the browser, which needs no network: a table of the runs, "
        "their curves, settings, machines and videos, and why some failed.",
    )
    _add_paths(made)
    _add_output(made, "report.html")
    return made


def ls(words: Sequence[str]) -> Parser:
    made = Parser(
        "jaxrl ls [PATH ...] [--json]",
        "Lists runs: status, steps, last and best return, time since the last write, "
        "and size.",
    )
    _add_paths(made, "*", "[runs]")
    made.add_argument("--json", action="store_true", help="print JSON instead")
    return made


def doctor(words: Sequence[str]) -> Parser:
    made = Parser(
        "jaxrl doctor [--out DIR]",
        "Checks versions, devices, MPI, rendering and the output directory, and trains "
        "for some seconds.",
    )
    out = "directory that would hold the runs [runs]"
    made.add_argument("--out", type=Path, metavar="DIR", default="runs", help=out)
    return made


def completion(words: Sequence[str]) -> Parser:
    made = Parser(
        "jaxrl completion bash|zsh|fish",
        "Prints a script that completes commands, algorithms and flags. For bash: "
        'eval "$(jaxrl completion bash)" in ~/.bashrc; for zsh the same in ~/.zshrc; '
        "for fish: jaxrl completion fish > ~/.config/fish/completions/jaxrl.fish",
    )
    made.add_choice("shell", ("bash", "zsh", "fish"), "the shell to complete in")
    return made


def plot(words: Sequence[str]) -> Parser:
    from jaxrl.show import curves
    from jaxrl.show.plot import BANDS
    from jaxrl.show.statistics import ESTIMATORS

    made = Parser(
        "jaxrl plot PATH... [-y COLUMN ...] [-o FILE] [--show] ...",
        "Draws learning curves: runs of one name are averaged, with a band around "
        "them; environments and columns have panels of their own.",
    )
    _add_paths(made)
    _add_selection(made, curves.PERFORMANCE)
    add = made.add_argument
    add("-x", metavar="COLUMN", default=curves.STEPS, help=f"[{curves.STEPS}]")
    add("--smooth", type=flags.count, default=1, metavar="N", help="rows averaged [1]")
    made.add_choice("--est", ESTIMATORS, "the line, over runs [mean]", "mean")
    bands = "around it: 95 %% bootstrap interval, standard deviation, extremes [ci]"
    made.add_choice("--band", BANDS, bands, "ci")
    add("--count", action="store_true", help="draw every run separately")
    facet = "setting with a panel for each value, or none [env]"
    add("--facet", metavar="SETTING", default="env", help=facet)
    ref = "Spinning Up's published curves beside them"
    made.add_choice("--ref", ["spinup"], ref)
    file = "a .png, .svg or .pdf [curves.png, or suite.png]"
    add("-o", "--output", type=Path, metavar="FILE", help=file)
    suite = "aggregates over environments instead of curves: IQM, performance "
    suite += "profiles, probability of improvement"
    add("--suite", action="store_true", help=suite)
    add("--show", action="store_true", help="open a window; no file, unless -o asks")
    return made


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
        ("--exclude", "GLOB", [], "all but these"),
        ("--legend", "NAME", [], "other names for the curves, in their order"),
    ):
        made.add_argument(name, nargs="+", metavar=kind, default=default, help=sentence)


# Options that several commands have


def _add_model(made: Parser) -> None:
    made.add_argument("dir", metavar="DIR", help="directory of a run")
    which = "which of its models: last, best (highest return) or a step [last]"
    made.add_argument(
        "--model", type=flags.model, metavar="MODEL", default="last", help=which
    )


def _add_policy(made: Parser, episodes: int) -> None:
    _add_model(made)
    add, count = made.add_argument, flags.count
    text = f"number of episodes [{episodes}]"
    add("--episodes", type=count, default=episodes, metavar="N", help=text)
    add("--max_len", type=count, metavar="N", help="most steps of an episode")
    add("--seed", type=flags.seed, default=0, metavar="N", help="seed of episodes [0]")


def _add_paths(made: Parser, nargs: str = "+", default: str = "") -> None:
    text = f"runs, directories of runs, or globs {default}".rstrip()
    made.add_argument("paths", nargs=nargs, metavar="PATH", help=text)


def _add_output(made: Parser, default: str) -> None:
    text = f"file to write [{default}]"
    kinds: dict[str, Any] = {"type": Path, "default": Path(default), "help": text}
    made.add_argument("-o", "--output", metavar="FILE", **kinds)


PARSERS: dict[str, Callable[[Sequence[str]], Parser]] = {
    "train": train,
    "grid": grid,
    "search": search,
    "resume": resume,
    "rerun": rerun,
    "eval": evaluate,
    "video": video,
    "plot": plot,
    "report": report,
    "ls": ls,
    "doctor": doctor,
    "export": export,
    "completion": completion,
}
