"""`jaxrl new my_sac.py --from sac`."""

import shlex
from pathlib import Path

from jaxrl import algos, files
from jaxrl.algos import user_files
from jaxrl.cli import options
from jaxrl.cli.stdout import say
from jaxrl.errors import UserError

HEADER = """\
# A copy of jaxrl's {algo}, yours to change: a loss, a target, more settings.
#   jaxrl check {path}      tests what training relies on
#   jaxrl train {path} --env {env}
"""


def main(arguments: list[str]) -> int:
    given = options.parser("new").parse(arguments)
    algo = getattr(given, "from")
    if not algo:
        raise UserError(
            f"missing --from; name the algorithm to copy: {', '.join(algos.NAMES)}"
        )
    path = Path(given.file)
    if path.suffix != user_files.SUFFIX:
        raise UserError(f"cannot write {path}; its name must end in .py")
    source = Path(algos.__file__).with_name(f"{algo}.py")
    shown = shlex.quote(str(path) if path.is_absolute() else f"./{path}")
    env = "Hopper-v4" if algo in ("ddpg", "td3", "sac") else "CartPole-v1"
    header = HEADER.format(algo=algo, path=shown, env=env)
    write_new(path, header + source.read_text("utf-8"))
    say(
        f"{path}: a copy of {algo}",
        f"  jaxrl check {shown}",
        f"  jaxrl train {shown} --env {env}",
        f"  jaxrl train {shown} --help        every setting, with yours",
    )
    return 0


def write_new(path: Path, text: str) -> None:
    """Never replaces a file."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(
            f"{path} exists and is not overwritten; choose another"
        ) from None
    except OSError as error:
        raise UserError(f"cannot write {path}: {files.reason(error)}") from None
