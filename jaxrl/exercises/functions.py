"""Checks a function that a user wrote, and says what is wrong with it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrl.algos import user_files
from jaxrl.errors import UserError


class Task(NamedTuple):
    """A function to write: its name, and how its results are checked."""

    name: str
    reference: Callable[..., jax.Array]
    cases: dict[str, tuple]
    """Arguments by what they test, the simplest first."""
    mistakes: dict[str, Callable[..., Any]]
    """Wrong functions by the sentence that explains the mistake."""
    shape: str
    """What the shape of the result must be, in words."""
    differentiated: int | None = None
    """The argument by which gradients are compared."""


def fault(task: Task, path: str) -> str:
    """What is wrong with the function in the file; empty if it is right."""
    function = _loaded(task, path)
    results = {}
    for case, arguments in task.cases.items():
        try:
            results[case] = function(*arguments)
        except NotImplementedError:
            return f"{task.name} is not written yet"
        except Exception as error:  # whatever the user's code raises
            reason = user_files.explained(error, user_files.absolute(path))
            return f"{task.name} fails for {case}{reason}"
        if wrong := _wrong_form(task, results[case], task.reference(*arguments)):
            return f"for {case}, {task.name} returns {wrong}"
    return (
        _wrong_value(task, results)
        or _wrong_under_jit(task, function, path)
        or _wrong_gradient(task, function, path)
    )


def _loaded(task: Task, path: str) -> Callable[..., Any]:
    function = getattr(user_files.load(user_files.absolute(path)), task.name, None)
    if not callable(function):
        raise UserError(f"{path} does not define the function {task.name}")
    return function


def _wrong_form(task: Task, got: Any, expected: jax.Array) -> str:
    """Describes a result that is no array, or one of another shape."""
    try:
        array = np.asarray(got)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        return f"{got!r:.60}, but must return an array; {task.shape}"
    if array.shape != expected.shape:
        wanted = f"shape {array.shape} instead of {expected.shape}"
        return f"an array of {wanted}; {task.shape}"
    return ""


def _wrong_value(task: Task, results: dict[str, Any]) -> str:
    """The first wrong number, and the mistake that explains all of them."""
    for case, arguments in task.cases.items():
        expected = task.reference(*arguments)
        if not _close(results[case], expected):
            number = _first_difference(results[case], expected)
            reason = _explanation(task, results)
            return f"for {case}, {task.name} {number}" + (reason and f": {reason}")
    return ""


def _explanation(task: Task, results: dict[str, Any]) -> str:
    """The known mistake that gives just these results; empty if none does."""
    for sentence, mistaken in task.mistakes.items():
        if all(
            _close(results[case], mistaken(*arguments))
            for case, arguments in task.cases.items()
        ):
            return sentence
    return ""


def _close(got: Any, expected: Any) -> bool:
    return np.shape(got) == np.shape(expected) and np.allclose(
        got, expected, rtol=1e-4, atol=1e-5, equal_nan=True
    )


def _first_difference(got: Any, expected: jax.Array) -> str:
    numbers, right = np.asarray(got, float), np.asarray(expected, float)
    wrong = ~np.isclose(numbers, right, rtol=1e-4, atol=1e-5)
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = f" at {list(index)}" if index else ""
    return f"is {numbers[index]:.4g} and not {right[index]:.4g}{where}"


def _wrong_under_jit(task: Task, function: Callable[..., Any], path: str) -> str:
    case, arguments = list(task.cases.items())[-1]
    traced = [x for x in arguments if not callable(x)]

    def filled(given: list) -> Any:
        rest = iter(given)
        return function(*(x if callable(x) else next(rest) for x in arguments))

    try:
        got = jax.jit(filled)(traced)
    except Exception as error:
        reason = user_files.explained(error, user_files.absolute(path))
        return (
            f"{task.name} is right, but cannot be compiled by jax.jit; use jax.numpy "
            f"instead of NumPy, and jnp.where instead of if{reason}"
        )
    same = _close(got, task.reference(*arguments))
    return "" if same else f"for {case}, {task.name} is right only without jax.jit"


def _wrong_gradient(task: Task, function: Callable[..., Any], path: str) -> str:
    number = task.differentiated
    if number is None:
        return ""
    case, arguments = list(task.cases.items())[-1]

    def gradient(of: Callable[..., Any]) -> jax.Array:
        return jax.grad(lambda *xs: of(*xs).sum(), argnums=number)(*arguments)

    try:
        got = gradient(function)
    except Exception as error:
        reason = user_files.explained(error, user_files.absolute(path))
        return f"{task.name} is right, but cannot be differentiated{reason}"
    expected = gradient(task.reference)
    if _close(got, expected):
        return ""
    difference = _first_difference(got, expected)
    return f"{task.name} is right, but for {case} its gradient {difference}"
