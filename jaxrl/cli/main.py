"""`jaxrl`: finds the command. JAX is not imported before one is known to need it."""

import contextlib
import importlib
import sys

from jaxrl import __version__
from jaxrl.cli import habits, interrupt, outcome, stdout
from jaxrl.errors import UserError, unknown
from jaxrl.logging.console import printable
from jaxrl.processes import ranks, threads
from jaxrl.runs.status import REFUSED, Status

COMMANDS = {
    "train": "train a policy in an environment",
    "grid": "train with every combination of settings, several runs at a time",
    "search": "search for good settings, each trial a run",
    "resume": "continue a run that was stopped, or train it longer",
    "rerun": "repeat a run, also with another seed or other settings",
    "verify": "train the first epochs of a run again and compare every number",
    "eval": "evaluate a trained policy over episodes",
    "video": "record a video of a trained policy",
    "plot": "draw learning curves",
    "report": "write a page for the browser: table, curves, settings, failures",
    "ls": "list runs and their status",
    "new": "write a copy of an algorithm, to change",
    "check": "run the contracts of an algorithm on a file of yours",
    "exercise": "learn by writing a loss, or by finding a bug; checks your file",
    "doctor": "check that everything works on this machine",
    "export": "write a trained policy as one file that needs only NumPy",
    "completion": "print a script that completes commands and flags in a shell",
}

TRAINING = ("train", "resume", "rerun")
INTERNAL = ("packed",)  # which a grid starts

HELP = f"""\
usage: jaxrl COMMAND ...

Six reinforcement-learning algorithms in JAX: vpg, trpo, ppo, ddpg, td3, sac.

commands:
{chr(10).join(f"  {name:10} {what}" for name, what in COMMANDS.items())}

  jaxrl train sac --env Hopper-v4
  jaxrl train sac --help         every setting of an algorithm, with its default
  jaxrl grid ppo --env CartPole-v1 Acrobot-v1 --seed 0 1 2
  jaxrl plot --help              every option of a command
"""


def main(argv: list[str] | None = None) -> int:
    """Runs one command; 0 if it succeeded, 2 if the user must change something."""
    arguments = sys.argv[1:] if argv is None else argv
    stdout.replace_unencodable()
    with interrupt.as_exception():
        try:
            code = _main(arguments)
            return stdout.finish(code, is_training=_is_training(arguments))
        except KeyboardInterrupt as error:
            return interrupt.exit_code(error)


def _is_training(arguments: list[str]) -> bool:
    return bool({*arguments[:1]} & {*TRAINING, "grid", "search"})


def _main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return stdout.finish(text=HELP)
    command, *rest = arguments
    if command in ("-V", "--version"):
        return stdout.finish(text=f"jaxrl {__version__}\n")
    if command not in (*COMMANDS, *INTERNAL):
        meant = habits.meant(command)
        sentence = f"there is no command {command!r}; type {meant}"
        sentence = sentence if meant else unknown("command", command, COMMANDS)
        print(f"jaxrl: {sentence}", file=sys.stderr)
        return REFUSED
    if {"-h", "--help"} & {*rest}:
        return _help(command, rest)
    outcome.claim()
    threads.fix_threads()
    verbose = [word for word in rest if word.replace("_", "-") == ranks.VERBOSE]
    ranks.join(bool(verbose))
    return _ran(command, [word for word in rest if word not in verbose])


def _help(command: str, rest: list[str]) -> int:
    """Prints the options of a command without importing what the command needs."""
    from jaxrl.cli import options

    return stdout.finish(text=options.parser(command, rest).format_help())


def _ran(command: str, rest: list[str]) -> int:
    """Its exit code; prints what went wrong in a sentence."""
    try:
        with interrupt.as_exit():
            module = importlib.import_module(f"jaxrl.cli.{command}")
        code = module.main(habits.translated(command, rest))
        outcome.record_if_none(Status.from_exit_code(code))
        return code
    except BrokenPipeError:  # the reader of our output has seen enough
        stdout.discard()
        return 0
    except BaseException as error:
        ended = Status.from_error(error)
        outcome.record(ended)
        sentence = _sentence(command, error, ended)
        if not sentence:
            raise  # with its traceback: it should not have happened
        code = 1 if isinstance(error, SystemExit) else ended.exit_code or 1
        return _failed(sentence, code)


def _sentence(command: str, error: BaseException, ended: Status) -> str:
    """What the user reads of an error; empty if nobody expected it."""
    if isinstance(error, UserError):
        return str(error)  # which may have several lines
    if isinstance(error, FloatingPointError) and command in TRAINING:
        return f"Training failed: {error}. This state was not saved."
    if isinstance(error, OSError) and not error.filename and stdout.is_broken():
        stdout.discard()
        return f"cannot write to standard output: {ended.reason}"
    if isinstance(error, OSError | FloatingPointError):
        return f"failed: {ended.reason}"
    if isinstance(error, KeyboardInterrupt):
        return interrupt.message(interrupt.exit_code(error) - 128)
    one_of_several = isinstance(error, SystemExit) and ranks.size() > 1
    return ended.reason if one_of_several else ""


def _failed(sentence: str, code: int) -> int:
    if ranks.size() > 1:
        ranks.end_all(code, sentence)
    # It may quote a stranger's file: lines stay, other control characters do not.
    lines = map(printable, sentence.split("\n"))
    with contextlib.suppress(OSError):  # the terminal may be closed
        print("jaxrl: " + "\n".join(lines), file=sys.stderr)
    return code
