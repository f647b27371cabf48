"""Exercises: four functions to write and three broken algorithms to mend.

`jaxrl exercise` lists them. A checker tells what is wrong with a file, not only that
something is. Importing this does not import JAX; checking does.
"""

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jaxrl.errors import UserError
from jaxrl.exercises import planted

TEMPLATES = Path(__file__).with_name("templates")


class Exercise(NamedTuple):
    """A task, the file to start from, and where jaxrl's own solution is."""

    title: str
    task: str
    template: str
    checker: str
    """The module, and for a broken algorithm the number of the bug in it."""
    own: str

    def fault(self, path: str) -> str:
        """What is wrong with a user's file, in a sentence; empty if it is right."""
        module, _, bug = self.checker.partition(":")
        found: Callable[..., str] = importlib.import_module(module).fault
        return found(path, int(bug)) if bug else found(path)

    @property
    def is_algorithm(self) -> bool:
        """Whether the file is an algorithm to mend, not a function to write."""
        return ":" in self.checker


def _function(title: str, name: str, own: str) -> Exercise:
    text = (TEMPLATES / f"{name}.py").read_text("utf-8")
    task = ast.get_docstring(ast.parse(text)) or ""
    return Exercise(title, task, text, f"jaxrl.exercises.{name}", own)


def _broken(number: int) -> Exercise:
    bug = planted.BUGS[number]
    own = f"jaxrl/algos/{bug.algo}.py"
    checker = f"jaxrl.exercises.broken:{number}"
    return Exercise(bug.title, bug.task, planted.text(bug), checker, own)


def every() -> dict[int, Exercise]:
    """All exercises by number."""
    found = [
        _function(
            "Gaussian log-likelihood",
            "log_likelihood",
            "Gaussian.log_prob in jaxrl/maths/distributions.py",
        ),
        _function(
            "generalized advantage estimates", "gae", "gae in jaxrl/maths/returns.py"
        ),
        _function("PPO's loss", "ppo_loss", "actor_loss in jaxrl/algos/ppo.py"),
        _function("TD3's target", "td3_target", "target in jaxrl/algos/td3.py"),
        *(_broken(number) for number in range(len(planted.BUGS))),
    ]
    return dict(enumerate(found, 1))


def get(number: str) -> Exercise:
    """The exercise of a number; refuses others."""
    exercises = {str(number): one for number, one in every().items()}
    if number not in exercises:
        raise UserError(
            f"there is no exercise {number[:40]!r}; choose 1 to {len(exercises)}, and "
            "jaxrl exercise lists them"
        )
    return exercises[number]
