"""Words of Spinning Up's and of Hydra's users, in ours, before a command is parsed.

The tables have all of Spinning Up's names. What has no counterpart is answered with a
sentence. `name=value` is `--name value`, also with dots, as in
`algorithm.params.gamma=0.98`.
"""

import json
import os
import re
from collections.abc import Callable

from jaxrl.algos import NAMES
from jaxrl.errors import UserError
from jaxrl.runs import nested

WITH_SETTINGS = ("train", "grid", "rerun")
_SETTINGS = {
    "--env_name": "--env",
    "--hid": "--hidden",
    "--ac_kwargs:hidden_sizes": "--hidden",
    "--act": "--activation",
    "--ac_kwargs:activation": "--activation",
    "--cpu": "--num_procs",
    "--num_cpu": "--num_procs",
    "--data_dir": "--out",
    "-s": "--seed",
}
_EPISODES = {"--len": "--max_len", "-l": "--max_len", "-n": "--episodes"}
RENAMED: dict[str, dict[str, str]] = {
    "train": _SETTINGS,
    "rerun": _SETTINGS,
    "grid": _SETTINGS | {"--exp_name": "--name"},
    "plot": {"--xaxis": "-x", "--value": "-y", "-s": "--smooth", "-l": "--legend"},
    "eval": _EPISODES | {"-d": "--deterministic"},
    "video": _EPISODES,
}
_DATE = "names of runs have no date; choose one with --exp_name"
_MODEL = "models are named by their step: --model last, --model best or --model STEP"
ANSWERED = {
    "train": {"--dt": _DATE, "--datestamp": _DATE},
    "grid": {"--dt": _DATE, "--datestamp": _DATE},
    "eval": {"--itr": _MODEL, "-i": _MODEL},
    "video": {"--itr": _MODEL, "-i": _MODEL},
}
LEFT_OUT = {"eval": ("--norender", "-nr"), "video": ("--norender", "-nr")}
COMMANDS = {"test_policy": "eval", "run": "train", "sweep": "grid", "help": "--help"}
OVERRIDE = re.compile(r"([A-Za-z_][\w.:\[\]-]*)=(.*)", re.S)


def translated(command: str, words: list[str]) -> list[str]:
    """The words after a command, in ours."""
    if command in WITH_SETTINGS:
        words = _with_flags(command, words)
    words = _renamed(command, words)
    if command == "train":
        algo, words = _taken("--algo", words)
        words = [algo, *words] if algo else words
    if command in WITH_SETTINGS:
        words = _with_layers(words)
        words = _with_values(words, "--activation", _activation)
    if command in ("eval", "video"):
        words = _without_zero_length(words)
    return words


def meant(command: str) -> str:
    """What to type for a command that there is not; empty if nobody knows."""
    algo = re.sub(r"_(pytorch|tf1)$", "", command)
    if algo in NAMES:
        return f"jaxrl train {algo} --env ID"
    return f"jaxrl {COMMANDS[command]}" if command in COMMANDS else ""


# name=value


def _with_flags(command: str, words: list[str]) -> list[str]:
    """`name=value` as a flag, `algo` as the first word, parts of env_kwargs as one."""
    made: list[str] = []
    flags: list[str] = []
    parts, first = {}, []
    for before, word in zip(["", *words], words, strict=False):
        found = OVERRIDE.fullmatch(word)
        if not found or _is_a_value(before, word, found[1]):
            made.append(word)
            continue
        name, value = nested.flat_name(found[1]), found[2]
        if name == "algo" and command == "train":
            first = [value]
        elif name.startswith("env_kwargs:") and command != "grid":
            parts[name.partition(":")[2]] = value
        else:  # in its place: of two values the last counts; after an algorithm's name
            (made if made or command == "grid" else flags).append(f"--{name}={value}")
    if parts:
        inner = ", ".join(f"{json.dumps(k)}: {x}" for k, x in parts.items())
        flags.append(f"--env_kwargs={{{inner}}}")
    return [*first, *made, *flags]


def _is_a_value(before: str, word: str, name: str) -> bool:
    """Whether it is a path, or belongs to the flag before it."""
    from jaxrl.experiments import values

    after_a_flag = before[:2] == "--" and "=" not in before
    known = nested.flat_name(name) in (*values.hints(), "env", "algo", "preset")
    return os.path.exists(word) or (after_a_flag and not known)


# Spinning Up's names


def _renamed(command: str, words: list[str]) -> list[str]:
    table, answered = RENAMED.get(command, {}), ANSWERED.get(command, {})
    made = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        name, bracket, shorthand = name.partition("[")  # as in --hid[h]
        name = (
            name.replace("-", "_").replace("__", "--", 1) if name[:2] == "--" else name
        )
        if name in answered:
            latest = rest and rest[0] in ("-1", "last")
            if answered[name] is not _MODEL or not (latest or value in ("-1", "last")):
                raise UserError(f"{name} is Spinning Up's; {answered[name]}")
            del rest[: 0 if equals else 1]
            made += ["--model", "last"]
        elif name not in LEFT_OUT.get(command, ()):
            ours = table.get(name)
            made.append(f"{ours}{bracket}{shorthand}{equals}{value}" if ours else word)
    return made


def _with_values(
    words: list[str], flag: str, change: Callable[[str], str]
) -> list[str]:
    """With the values of one flag changed."""
    made, inside = [], False
    for word in words:
        name, equals, value = word.partition("=")
        if name[:2] == "--":
            inside = name.partition("[")[0] == flag
            made.append(f"{name}={change(value)}" if inside and equals else word)
        else:
            made.append(change(word) if inside else word)
    return made


def _activation(text: str) -> str:
    """`torch.nn.Tanh` and `tf.nn.tanh` as `tanh`."""
    return text.rpartition(".")[2].lower() if "nn." in text else text


def _with_layers(words: list[str]) -> list[str]:
    """`--hid 64 --l 2` as `--hidden 64,64`."""
    count, rest = _taken("--l", words)
    if count is None:
        return words
    if not re.fullmatch(r"[1-9]\d?", count):
        raise UserError(f"--l is {count!r}, but must be a number of layers")
    widths = [x for x in rest if x.partition("=")[0].partition("[")[0] == "--hidden"]
    if not widths:
        raise UserError(
            "--l is Spinning Up's number of layers of width --hid; write their widths, "
            "as in --hidden 64,64"
        )
    return _with_values(rest, "--hidden", lambda text: ",".join([text] * int(count)))


def _without_zero_length(words: list[str]) -> list[str]:
    """`--len 0` is Spinning Up's way to say that there is no limit."""
    length, rest = _taken("--max_len", words)
    return rest if length == "0" else words


def _taken(flag: str, words: list[str]) -> tuple[str | None, list[str]]:
    """The value of a flag, and the words without both; None without the flag."""
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == flag and equals:
            return value, words[:i] + words[i + 1 :]
        if name == flag:
            return (words[i + 1 : i + 2] or [""])[0], words[:i] + words[i + 2 :]
    return None, words
