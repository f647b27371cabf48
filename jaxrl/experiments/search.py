"""Hyperparameter search with Optuna; each trial is a run like any other.

The value of a trial is the mean return of its last epochs. Trials are stored in a
SQLite file, or in a database of Optuna's that several machines share.
"""

import contextlib
import importlib.util
import json
import math
import os
import re
import shlex
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl import files
from jaxrl.errors import UserError, differences
from jaxrl.experiments import runner
from jaxrl.experiments.job import Job, Stop
from jaxrl.experiments.runner import Options
from jaxrl.experiments.search_file import PRUNERS, SearchRange, SearchSpec, one_word
from jaxrl.experiments.variant import Variant
from jaxrl.runs import directory, reading, status


class SearchResult(NamedTuple):
    """The best trial of a search."""

    settings: dict[str, Any]
    """{} where the search was stopped before a trial was finished."""
    value: float
    directory: Path
    importance: dict[str, float]
    """Of each setting in the space, summing to 1; empty after too few trials."""
    stopped_by: Any = None

    @property
    def command(self) -> str:
        """Trains with these settings; "" where there are none."""
        if not self.settings:
            return ""
        rest = {k: x for k, x in self.settings.items() if k not in ("algo", "env")}
        words = [f"--{key} {_word(value)}" for key, value in rest.items()]
        algo = shlex.quote(self.settings["algo"])
        start = f"jaxrl train {algo} --env {self.settings['env']}"
        return " ".join([start, *words])


def _word(value: Any) -> str:
    """As a shell takes it; a mapping as YAML in one line."""
    text = json.dumps(value) if isinstance(value, Mapping) else str(one_word(value))
    return shlex.quote(text)


def run(spec: SearchSpec, options: Options) -> SearchResult:
    """Until all trials are done, or a signal came."""
    if importlib.util.find_spec("optuna") is None:
        raise UserError(
            "a search needs the package optuna; install it with pip install "
            "'jaxrl[search]'"
        )
    spec.check()
    with _usable_storage(spec):
        return _run(spec, options)


@contextlib.contextmanager
def _usable_storage(spec: SearchSpec) -> Iterator[None]:
    """Explains what its database raises, such as on a full disk."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        raise OSError(_unusable(_storage(spec), error)) from error


def _run(spec: SearchSpec, options: Options) -> SearchResult:
    with directory.locked(spec.root):  # leaves nothing where the storage is refused
        search = Search(spec)
    if search.is_over:
        if options.screen:
            print(f"{spec.name}: all {search.started} trials are done already")
        return search.result()
    summary = runner.run(spec.name, [], options, search, spec.total_trials)
    if summary.stopped_by and not search.has_result:
        return SearchResult({}, math.nan, spec.root, {}, summary.stopped_by)
    return search.result()._replace(stopped_by=summary.stopped_by)


def _sampler(name: str) -> Any:
    from optuna import samplers

    makers: dict[str, Callable[[], Any]] = {
        "tpe": samplers.TPESampler,
        "random": samplers.RandomSampler,
        "grid": samplers.RandomSampler,  # which is not asked: its trials are enqueued
        "qmc": lambda: samplers.QMCSampler(warn_independent_sampling=False),
        "cmaes": lambda: samplers.CmaEsSampler(warn_independent_sampling=False),
        "gp": lambda: samplers.GPSampler(warn_independent_sampling=False),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an interface may change
        return makers[name]()


def _storage(spec: SearchSpec) -> str:
    """Optuna's URL of where trials are kept."""
    return spec.storage or f"sqlite:///{spec.root / 'trials.db'}"


def _refuse_links(database: Path) -> None:
    """SQLite writes to these files, and through hard links, wherever they lead."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        file = database.with_name(database.name + suffix)
        if os.path.lexists(file) and not files.is_regular(file, file.parent):
            raise UserError(f"{file} is not a regular file; remove it")
        if os.path.lexists(file) and file.lstat().st_nlink > 1:
            raise UserError(
                f"{file} is also a file elsewhere (a hard link), which would be "
                f"written to; replace it by a copy: cp {file} x && mv x {file}"
            )


def _study(spec: SearchSpec) -> Any:
    """The study with its trials so far; refuses a storage that cannot be used."""
    import optuna

    pruners = optuna.pruners.MedianPruner, optuna.pruners.NopPruner
    sampler, pruner = _sampler(spec.sampler), pruners[PRUNERS.index(spec.pruner)]()
    storage, own = _storage(spec), spec.root / "trials.db"
    _refuse_links(own)
    try:
        return optuna.create_study(
            study_name=spec.name,
            storage=storage,
            sampler=sampler,
            pruner=pruner,
            direction="maximize",
            load_if_exists=True,
        )
    except Exception as error:  # each kind of database has its own errors
        raise UserError(_unusable(storage, error)) from None


def _described(text: str) -> dict[str, Any]:
    """Each setting with its value or its range."""
    fixed, space = json.loads(text)
    return fixed | {key: SearchRange(*given) for key, given in space.items()}


def _unusable(storage: str, error: Exception) -> str:
    """Why, in a line, without a password that the URL may hold."""
    reason = str(error.__cause__ or error).partition("\n")[0]
    who = storage.partition("://")[2].rpartition("@")[0]
    for secret in *re.split("[:@]", who)[1:], *re.findall("=([^&]*)", storage):
        reason = reason.replace(secret, "***") if secret else reason
    public = re.sub("://.*@", "://", storage).partition("?")[0]
    return f"the storage {public} cannot be used: {reason}"


class Search:
    """Asks Optuna for settings, and tells it their value."""

    def __init__(self, spec: SearchSpec) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._spec, self._optuna = spec, optuna
        self._study = _study(spec)
        self._refuse_another_search()
        self._trials: dict[str, Any] = {}
        self._reported: dict[str, int] = {}
        self._interrupted = [
            trial for trial in self._in_state("RUNNING") if self._is_ours(trial)
        ]

    def _refuse_another_search(self) -> None:
        """Trials of other settings must not be compared with these."""
        spec = self._spec
        now = json.dumps([spec.fixed, spec.space], sort_keys=True, default=str)
        before = self._study.user_attrs.get("plan", now)
        if before != now:
            changes = differences(_described(before), _described(now))
            raise UserError(
                f"{spec.root} holds a search with other settings: "
                f"{', '.join(changes)}; choose another name"
            )
        self._study.set_user_attr("plan", now)

    def _in_state(self, name: str) -> list[Any]:
        state = self._optuna.trial.TrialState[name]
        return self._study.get_trials(deepcopy=False, states=(state,))

    @property
    def is_over(self) -> bool:
        """Whether no trial is left."""
        return not self._interrupted and self.started >= self._spec.total_trials

    @property
    def has_result(self) -> bool:
        return bool(self._in_state("COMPLETE"))

    @property
    def started(self) -> int:
        """Trials that were started, on any machine; those enqueued do not count."""
        every = self._study.get_trials(deepcopy=False)
        return len(every) - len(self._in_state("WAITING"))

    def _is_ours(self, trial: Any) -> bool:
        return trial.user_attrs.get("where") == self._where

    @property
    def _where(self) -> str:
        return f"{socket.gethostname()}:{self._spec.root.absolute()}"

    # As a source of the runner

    def next(self) -> Variant | None:
        """An interrupted trial, or else a new one."""
        if self._interrupted:
            frozen = self._interrupted.pop(0)
            trial = self._optuna.trial.Trial(self._study, frozen._trial_id)
            seen = 1 + max(frozen.intermediate_values, default=-1)
        elif (started := self.started) < self._spec.total_trials:
            if self._spec.sampler == "grid":
                following = self._spec.combination(started)
                self._study.enqueue_trial(following, skip_if_exists=True)
            trial, seen = self._study.ask(), 0
            trial.set_user_attr("where", self._where)
        else:
            return None
        space = self._spec.space
        chosen = {key: range.suggest(trial, key) for key, range in space.items()}
        variant = self._spec.variant(trial.number, chosen)
        self._trials[variant.name], self._reported[variant.name] = trial, seen
        return variant

    def should_stop(self, job: Job) -> Stop | None:
        """Reports its new epochs to Optuna, whose pruner may end it."""
        trial, name = self._trials[job.variant.name], job.variant.name
        returns = self._returns(job)
        for epoch in range(self._reported[name], len(returns)):
            if not np.isnan(returns[epoch]):
                trial.report(float(returns[epoch]), epoch)
        if len(returns) <= self._reported[name]:
            return None
        self._reported[name] = len(returns)
        if trial.should_prune():
            return Stop("worse than other trials at this step", "pruned")
        return None

    def report(self, job: Job) -> None:
        """Tells Optuna its value."""
        states = self._optuna.trial.TrialState
        trial = self._trials[job.variant.name]
        value = reading.mean_return(self._returns(job))
        if job.state == "finished" and value is not None:
            self._study.tell(trial, value)
        elif job.state == "pruned":
            self._study.tell(trial, state=states.PRUNED)
            status.update(job.variant.path, state="pruned", reason=job.reason)
        else:
            self._study.tell(trial, state=states.FAIL)

    def _returns(self, job: Job) -> np.ndarray:
        return reading.returns(job.variant.progress)

    def result(self) -> SearchResult:
        """The best trial; refuses where there is none."""
        if not self.has_result:
            raise UserError(
                f"no trial finished; the .txt files in {self._spec.root} show why"
            )
        best = self._study.best_trial
        variant = self._spec.variant(best.number, best.params)
        hidden = ("exp_name", "out")
        settings = {k: x for k, x in variant.settings.items() if k not in hidden}
        return SearchResult(
            settings, self._study.best_value, variant.path, self._importance()
        )

    def _importance(self) -> dict[str, float]:
        measure = self._optuna.importance
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # It warns where too few trials make all settings equal.
            warnings.filterwarnings("error", category=UserWarning)
            try:
                by = measure.PedAnovaImportanceEvaluator()
                return measure.get_param_importances(self._study, evaluator=by)
            except (ValueError, RuntimeError, UserWarning):
                return {}
