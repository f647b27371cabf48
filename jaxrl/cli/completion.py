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
    local cur=${{COMP_WORDS[COMP_CWORD]}} key=${{COMP_WORDS[1]}} words=
    case "$key ${{COMP_WORDS[2]}}" in
        {algorithms}) [ "$COMP_CWORD" -gt 2 ] && key="$key ${{COMP_WORDS[2]}}" ;;
    esac
    [ "$COMP_CWORD" -eq 1 ] && key=jaxrl
    case "$key" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _jaxrl jaxrl
"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit"


class Context(NamedTuple):
    """The words typed so far, and those that can follow with their explanations."""

    typed: tuple[str, ...]
    words: dict[str, str]


def main(arguments: list[str]) -> int:
    shell = options.parser("completion").parse(arguments).shell
    contexts = _contexts()
    if shell == "fish":
        print("\n".join(_fish(contexts)))
    else:
        print(f"{ZSH}\n{_bash(contexts)}" if shell == "zsh" else _bash(contexts))
    return 0


def _contexts() -> list[Context]:
    found = [Context((), dict(COMMANDS))]
    for command in COMMANDS:
        algorithms = command in ("train", "grid")
        words = dict.fromkeys(NAMES, "algorithm") if algorithms else {}
        found.append(Context((command,), words | _flags((command,))))
        for algo in NAMES if algorithms else ():
            found.append(Context((command, algo), _flags((command, algo))))
    return found


def _flags(typed: tuple[str, ...]) -> dict[str, str]:
    """The flags in the help of a command, or of a command and an algorithm."""
    actions = options.parser(typed[0], typed[1:])._actions
    return {
        option: str(action.help).replace("%%", "%")
        for action in actions
        if action.help != argparse.SUPPRESS
        for option in action.option_strings
    }


def _bash(contexts: list[Context]) -> str:
    cases = [
        f"        {_quoted(typed or ('jaxrl',))}) words={_quoted(words)} ;;"
        for typed, words in contexts
    ]
    algorithms = "|".join(_quoted(each.typed) for each in contexts if each.typed[1:])
    return BASH.format(algorithms=algorithms, cases="\n".join(cases)).rstrip()


def _quoted(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))


def _fish(contexts: list[Context]) -> list[str]:
    lines = []
    for typed, words in contexts:
        tests = [f"__fish_seen_subcommand_from {word}" for word in typed]
        condition = shlex.quote("; and ".join(tests) or "__fish_use_subcommand")
        for word, text in words.items():
            name = word.lstrip("-")
            kind = ("-a", "-s", "-l")[len(word) - len(name)]
            start = f"complete -c jaxrl -n {condition} {kind} {name}"
            lines.append(f"{start} -d {shlex.quote(text)}")
    return lines
