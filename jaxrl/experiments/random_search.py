"""Random search over any function of settings, one trial after the other.

    best = jaxrl.random_search(
        {"lr": lambda: loguniform(1e-5, 1e-2), "batch_size": lambda: choice([32, 64])},
        n_trials=20,
        evaluation_fn=lambda params: score(**params),
    )

Trial n of a seed draws the same values however many trials there are.
"""

import dataclasses
import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from jaxrl import sampling
from jaxrl.errors import UserError
from jaxrl.runs import reading, status
from jaxrl.settings.values import plain

Settings = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class SearchTrial:
    """One call of the function."""

    number: int
    params: Settings
    value: float | None = None
    """None if it failed."""
    reason: str = ""
    """Why it failed."""


class BestSettings(dict):
    """The settings of the best trial, as a dict; its value and all trials beside."""

    def __init__(self, best: SearchTrial, trials: list[SearchTrial]) -> None:
        super().__init__(best.params)
        assert best.value is not None
        self.value: float = best.value
        self.trials = trials

    @property
    def params(self) -> Settings:
        """The same settings as a plain dict."""
        return dict(self)


def run(
    param_space: Mapping[str, Any],
    n_trials: int,
    evaluation_fn: Callable[[Settings], Any],
    seed: int = 0,
    screen: bool = True,
) -> BestSettings:
    """Calls the function with `n_trials` draws; refuses bad input before any call."""
    _check(param_space, n_trials, evaluation_fn, seed)
    trials: list[SearchTrial] = []
    for trial in _trials(param_space, n_trials, evaluation_fn, seed):
        trials.append(trial)
        if screen:
            print(_line(trial, n_trials), flush=True)
    succeeded = [trial for trial in trials if trial.value is not None]
    if not succeeded:
        last = f"; the last one: {trials[-1].reason}" if trials else ""
        raise UserError(f"all {len(trials)} trials failed{last}")
    best = max(succeeded, key=lambda trial: (trial.value, -trial.number))
    return BestSettings(best, trials)


def _check(space: Any, n_trials: Any, evaluation_fn: Any, seed: Any) -> None:
    if not isinstance(space, Mapping) or not space:
        raise UserError(
            f"param_space is {space!r}, but must name settings, as in "
            "{'lr': lambda: loguniform(1e-5, 1e-2)}"
        )
    if strange := [key for key in space if not isinstance(key, str)]:
        raise UserError(f"param_space has {strange[0]!r}, which is not a name")
    n_trials, seed = plain(n_trials), plain(seed)
    if type(n_trials) is not int or n_trials < 1:
        raise UserError(f"n_trials is {n_trials!r}, but must be a whole number >= 1")
    if type(seed) is not int:
        raise UserError(f"seed is {seed!r}, but must be a whole number")
    if not callable(evaluation_fn):
        raise UserError(
            f"evaluation_fn is {evaluation_fn!r}, but must be a function of one dict"
        )
    _draw(space, seed, 0)  # a mistake in a range shows before the first call


def _trials(
    space: Mapping[str, Any],
    n_trials: int,
    evaluation_fn: Callable[[Settings], Any],
    seed: int,
) -> Iterator[SearchTrial]:
    for number in range(n_trials):
        params = _draw(space, seed, number)
        trial = SearchTrial(number, params)
        try:
            result = evaluation_fn(dict(params))
            value = score(result)
        except Exception as error:
            if not isinstance(error, UserError):
                traceback.print_exc()
            yield dataclasses.replace(trial, reason=status.describe(error))
            continue
        yield dataclasses.replace(trial, value=value)
        if getattr(result, "stopped_by", None):  # Ctrl-C stopped a run inside of it
            return


def _draw(space: Mapping[str, Any], seed: int, number: int) -> Settings:
    """Calls what can be called; all else is a constant."""
    params = {}
    with sampling.seeded(f"{seed} {number}"):
        for name, entry in space.items():
            try:
                params[name] = entry() if callable(entry) else entry
            except Exception as error:
                reason = status.describe(error)
                raise UserError(f"no value of {name} can be drawn: {reason}") from error
    return params


def score(result: Any) -> float:
    """A number, or the mean return of the last epochs of what `jaxrl.train` returns."""
    history = getattr(result, "history", None)
    if isinstance(history, list):
        names = {name for row in history for name in row}
        rows = {x: np.array([row.get(x) for row in history], float) for x in names}
        value = reading.mean_return(reading.returns(rows))
        if value is None:
            raise UserError("no episode was finished in its last epochs")
    else:
        value = plain(result)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(
            f"evaluation_fn returned {result!r}, but must return a number or what "
            "jaxrl.train returns"
        )
    if math.isnan(value):
        raise UserError("evaluation_fn returned NaN")
    return float(value)


def _line(trial: SearchTrial, n_trials: int) -> str:
    drawn = ", ".join(f"{name}={_shown(x)}" for name, x in trial.params.items())
    outcome = f"failed: {trial.reason}" if trial.value is None else f"{trial.value:g}"
    return f"trial {trial.number + 1} of {n_trials}: {outcome}  ({drawn})"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
