"""`jaxrl completion bash|zsh|fish`: a script that completes what can be typed."""

import argparse
import shlex
from collections.abc import Iterable
from typing import NamedTuple

from jaxrl.algos import NAMES
from jaxrl.cli import options
from jaxrl.cli.main import COMMANDS

BASH = """\
_jaxrl() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} key=${{COMP_WORDS[1]}} words= i=$COMP_CWORD
    local flag=${{COMP_WORDS[i-1]}}
    if [ "$key" = grid ]; then  # whose flags take several values
        while [ "$i" -gt 2 ] && [ "${{flag#--}}" = "$flag" ]; do
            i=$((i-1)) flag=${{COMP_WORDS[i-1]}}
        done
    fi
    case "$key ${{COMP_WORDS[2]}}" in
        {algorithms}) [ "$COMP_CWORD" -gt 2 ] && key="$key ${{COMP_WORDS[2]}}" ;;
    esac
    [ "$COMP_CWORD" -eq 1 ] && key=jaxrl
    case "$key" in
{cases}
    esac
    case "$cur" in -*) flag= ;; esac
    case "$flag" in
{values}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _jaxrl jaxrl
"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit"
TRAIN_ONLY = ("--env", "--preset", "--config")


class Context(NamedTuple):
    """The words typed so far, and those that can follow with their explanations."""

    typed: tuple[str, ...]
    words: dict[str, str]
    values: dict[str, list[str]]
    """The values of flags that have a choice."""


def main(arguments: list[str]) -> int:
    shell = options.parser("completion").parse(arguments).shell
    contexts = _contexts()
    if shell == "fish":
        print("\n".join(_fish(contexts)))
    else:
        print(f"{ZSH}\n{_bash(contexts)}" if shell == "zsh" else _bash(contexts))
    return 0


def _contexts() -> list[Context]:
    found = [Context((), dict(COMMANDS), {})]
    for command in COMMANDS:
        algorithms = NAMES if command in ("train", "grid") else ()
        own = _context((command,))
        own.words.update(dict.fromkeys(algorithms, "algorithm"))
        found += [own, *(_context((command, algo)) for algo in algorithms)]
        if command == "rerun":  # of any algorithm
            for each in (_context(("train", algo)) for algo in NAMES):
                settings = each.words.keys() - {*TRAIN_ONLY}
                own.words.update({k: each.words[k] for k in sorted(settings)})
                own.values.update(each.values)
    return found


def _context(typed: tuple[str, ...]) -> Context:
    """Of a command, or of a command and an algorithm."""
    made = Context(typed, {}, {})
    for action in options.parser(typed[0], typed[1:])._actions:
        if action.help == argparse.SUPPRESS:
            continue
        text = str(action.help).replace("%%", "%")
        choice = [word for word in str(action.metavar).split("|") if word.islower()]
        choice = choice if "|" in str(action.metavar) else []
        made.words.update(dict.fromkeys(action.option_strings or choice, text))
        if choice and choice != ["true", "false"]:  # a switch needs no value
            made.values.update(dict.fromkeys(action.option_strings, choice))
    return made


def _bash(contexts: list[Context]) -> str:
    cases = [
        f"        {_quoted(each.typed or ('jaxrl',))}) words={_quoted(each.words)} ;;"
        for each in contexts
    ]
    algorithms = "|".join(_quoted(each.typed) for each in contexts if each.typed[1:])
    every = {flag: x for each in contexts for flag, x in each.values.items()}
    values = [f"        {flag}) words={_quoted(x)} ;;" for flag, x in every.items()]
    return BASH.format(
        algorithms=algorithms, cases="\n".join(cases), values="\n".join(values)
    ).rstrip()


def _quoted(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))


def _fish(contexts: list[Context]) -> list[str]:
    lines = []
    for typed, words, values in contexts:
        tests = [f"__fish_seen_subcommand_from {word}" for word in typed]
        condition = shlex.quote("; and ".join(tests) or "__fish_use_subcommand")
        for word, text in words.items():
            name = word.lstrip("-")
            kind = ("-a", "-s", "-l")[len(word) - len(name)]
            start = f"complete -c jaxrl -n {condition} {kind} {name}"
            choice = f" -x -a {_quoted(values[word])}" if word in values else ""
            lines.append(f"{start}{choice} -d {shlex.quote(text)}")
    return lines
