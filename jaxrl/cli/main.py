"""`jaxrl`: finds the command. JAX is not imported before one is known to need it."""

import importlib
import os
import sys

from jaxrl import __version__
from jaxrl.cli import interrupt
from jaxrl.errors import UserError
from jaxrl.processes import ranks, threads

COMMANDS = {
    "train": "train a policy in an environment",
    "grid": "train with every combination of settings, several runs at a time",
    "search": "search for good settings, each trial a run",
    "resume": "go on with a run that was stopped, or beyond its end",
    "rerun": "start a run anew, with another seed or other settings",
    "eval": "play episodes of a trained policy, and sum them up",
    "video": "film a trained policy",
    "plot": "draw learning curves",
    "report": "show runs on a page for the browser: table, curves, settings, failures",
    "ls": "list runs, and what has become of them",
    "doctor": "check that everything works on this machine",
    "export": "write a trained policy as one file that needs only NumPy",
}

HELP = f"""\
usage: jaxrl COMMAND ...

Six reinforcement-learning algorithms in JAX: vpg, trpo, ppo, ddpg, td3, sac.

commands:
{chr(10).join(f"  {name:8} {what}" for name, what in COMMANDS.items())}

  jaxrl train sac --env Hopper-v4
  jaxrl train sac --help         every setting of an algorithm, with its default
  jaxrl grid ppo --env CartPole-v1 Acrobot-v1 --seed 0 1 2
  jaxrl plot --help              every option of a command
"""


def main(argv: list[str] | None = None) -> int:
    """Runs one command; 0 if it succeeded, 2 if the user must change something."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    command, *rest = arguments
    if command in ("-V", "--version"):
        print(f"jaxrl {__version__}")
        return 0
    if command not in COMMANDS:
        return _unknown(command)
    threads.fix_threads()
    ranks.join(ranks.VERBOSE in rest)
    rest = [word for word in rest if word != ranks.VERBOSE]
    with interrupt.heeded():
        return _ran(command, rest)


def _ran(command: str, rest: list[str]) -> int:
    """Its exit code; what went wrong is told in a sentence."""
    try:
        with interrupt.immediately():
            module = importlib.import_module(f"jaxrl.cli.{command}")
        return module.main(rest)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UserError as error:
        return _stopped(2, str(error))
    except FloatingPointError as error:
        return _stopped(1, f"stopped, because {error}; no checkpoint holds it")
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _stopped(1, f"stopped: {error.strerror or error}{where}")
    except KeyboardInterrupt:
        return _stopped(interrupt.CODE, "interrupted")
    except SystemExit as left:
        if ranks.size() == 1:
            raise
        return _stopped(1, f"the process was left by exit({left.code})")


def _stopped(code: int, sentence: str) -> int:
    if ranks.size() > 1:
        ranks.end_all(code, sentence)
    print(f"jaxrl: {sentence}", file=sys.stderr)
    return code


def _unknown(command: str) -> int:
    import difflib

    near = difflib.get_close_matches(command, COMMANDS, 1)
    hint = (
        f"; did you mean {near[0]!r}?" if near else f"; there is {', '.join(COMMANDS)}"
    )
    print(f"jaxrl has no command {command!r}{hint}", file=sys.stderr)
    return 2
