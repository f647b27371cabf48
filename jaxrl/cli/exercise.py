"""`jaxrl exercise 1`, `--write my.py` and `--check my.py`."""

import os
import shlex
from pathlib import Path

from jaxrl import exercises
from jaxrl.algos import user_files
from jaxrl.cli import check, options
from jaxrl.cli.new import write_new
from jaxrl.cli.stdout import say
from jaxrl.errors import UserError
from jaxrl.exercises import Exercise


def main(arguments: list[str]) -> int:
    given = options.parser("exercise").parse(arguments)
    if given.number is None:
        if given.write or given.check:
            raise UserError("missing NUMBER; jaxrl exercise lists the exercises")
        say(*_listed())
        return 0
    exercise = exercises.get(given.number)
    if given.write and given.check:
        raise UserError("--write does not go with --check; give one of them")
    if given.write:
        return _write(exercise, given.number, given.write)
    if given.check:
        return _check(exercise, given.number, given.check)
    command = f"  jaxrl exercise {given.number}"
    say(
        f"Exercise {given.number}: {exercise.title}\n\n{exercise.task}\n",
        f"{command} --write my.py    writes the file to start from",
        f"{command} --check my.py    says what is wrong with it",
    )
    return 0


def _listed() -> list[str]:
    lines = [f"{n:3}  {one.title}" for n, one in exercises.every().items()]
    return [*lines, "", "jaxrl exercise 1 prints a task."]


def _write(exercise: Exercise, number: str, name: str) -> int:
    path = _python_file(name)
    write_new(path, exercise.template)
    what = "mend it" if exercise.is_algorithm else "fill it in"
    shown = shlex.quote(str(path))
    say(f"{path}: {what}, then", f"  jaxrl exercise {number} --check {shown}")
    return 0


def _check(exercise: Exercise, number: str, name: str) -> int:
    path = _python_file(name)
    if not path.exists():
        shown = shlex.quote(str(path))
        raise UserError(
            f"there is no file {path}; jaxrl exercise {number} --write {shown} writes "
            "one to start from"
        )
    if exercise.is_algorithm:
        say("checking, which takes up to a minute")
        check.use_quick_devices()
    else:
        os.environ["JAX_PLATFORMS"] = "cpu"
    fault = exercise.fault(str(path))
    if fault:
        say(f"not yet: {fault}")
        return 1
    say(f"right. jaxrl's own: {exercise.own}")
    return 0


def _python_file(name: str) -> Path:
    path = Path(name)
    if path.suffix != user_files.SUFFIX:
        raise UserError(f"the file is {name!r}, but its name must end in .py")
    return path
