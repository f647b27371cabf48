"""The pages of the command line, made from the parsers of the commands.

`{refused} jaxrl ...` runs a command that must be refused, and shows what it prints.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from jaxrl.cli import options
from jaxrl.cli.main import COMMANDS

# For these, the settings of one algorithm; the others are on the algorithms' pages.
WORDS = {"train": ("ppo",)}
SETTINGS = ("data", "algorithm ppo")
ROOT = Path(__file__).resolve().parents[2]


class Refused(SphinxDirective):
    """A command with a mistake, and the answer to it."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        _, *words = shlex.split(self.arguments[0])
        environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run(
                [sys.executable, "-m", "jaxrl", *words],
                capture_output=True,
                text=True,
                cwd=empty,
                env=environment,
                timeout=120,
            )
        if done.returncode != 2:
            raise self.error(f"exit code {done.returncode}, not 2: {self.arguments[0]}")
        text = f"$ {self.arguments[0]}\n{done.stderr}"
        return [nodes.literal_block(text, text, language="console", classes=["wrap"])]


class Commands(SphinxDirective):
    """`commands`: a section for each, with its usage and options."""

    def run(self) -> list[nodes.Node]:
        text = "\n\n".join(section(command) for command in COMMANDS)
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def section(command: str) -> str:
    """In Markdown."""
    parser = options.parser(command, WORDS.get(command, ()))
    usage = str(parser.usage).replace("jaxrl train ppo", "jaxrl train ALGO")
    usage = usage.replace("\n       jaxrl", "\njaxrl")
    parts = [f"## jaxrl {command}", f"{COMMANDS[command].capitalize()}."]
    parts += [f"```text\n{usage}\n```", str(parser.description)]
    tables: dict[str, list[str]] = {}
    for group in parser._action_groups:
        title = str(group.title)
        rows = [row(action) for action in group._group_actions if visible(action)]
        if title not in SETTINGS:
            tables.setdefault("run" if title == "run" else "", []).extend(rows)
    for title, rows in tables.items():
        parts += ["Settings of every run:"] if title and rows else []
        parts += ["\n".join(["| | |", "| --- | --- |", *rows])] if rows else []
    if command == "train":
        parts.append("And every setting of [the algorithm](../algorithms/index.md).")
    return "\n\n".join(parts)


def visible(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS and action.dest != "help"


def row(action: argparse.Action) -> str:
    kind = f" {action.metavar}" if action.metavar and action.nargs != 0 else ""
    several = " ..." if action.nargs in ("*", "+") else ""
    names = ", ".join(action.option_strings)
    what = f"{names}{kind}{several}".strip().replace("|", r"\|")
    text = str(action.help).replace("%%", "%").replace("|", r"\|")
    return f"| `{what}` | {text} |"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("refused", Refused)
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
