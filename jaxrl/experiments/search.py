"""A search for good settings, by Optuna; each trial is a run like any other.

    name: sac-search
    algo: sac
    env: Hopper-v4
    steps: 100000
    trials: 40
    sampler: tpe                  # or random, qmc, grid, cmaes, gp
    pruner: median                # or none
    space:
      lr: {log_uniform: [1e-5, 1e-2]}
      gamma: {uniform: [0.9, 0.999]}
      batch_size: {int: [64, 512]}
      hidden: {choice: [[64, 64], [256, 256]]}

A trial is worth the mean return of its last epochs. What was tried is kept in a
SQLite file, or wherever a storage URL of Optuna says, which several machines may share.
"""

import dataclasses
import importlib.util
import itertools
import json
import math
import re
import shlex
import socket
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from jaxrl.experiments import grid, runner, sheet
from jaxrl.experiments.runner import Job, Options
from jaxrl.experiments.variant import Variant
from jaxrl.runs import directory, reading
from jaxrl.runs.refusal import Refused, suggestion

KINDS = ("uniform", "log_uniform", "int", "choice")
# Each with the package that it needs beside Optuna.
SAMPLERS = {"tpe": "", "random": "", "qmc": "", "grid": "", "cmaes": "cmaes"}
SAMPLERS |= {"gp": "torch"}
PRUNERS = ("median", "none")
FOR_GRIDS = ("zip", "include", "exclude", "slurm")
OWN = ("trials", "sampler", "pruner", "storage", "space")
LAST = 5  # epochs over which a trial's returns are averaged
TRIALS = 20  # where no number is given


class Range(NamedTuple):
    """The values that one setting may take."""

    kind: str
    values: list[Any]

    @classmethod
    def of(cls, key: str, given: Any) -> Self:
        """From {kind: [low, high]}; refuses what is none."""
        known = isinstance(given, Mapping) and len(given) == 1
        kind, values = next(iter(given.items())) if known else ("", None)
        if kind not in KINDS:
            hint = suggestion(str(kind), KINDS) or f"; write one of {', '.join(KINDS)}"
            raise Refused(f"{key} has no range: as in {{uniform: [0, 1]}}{hint}")
        if not isinstance(values, list) or len(values) < 2:
            raise Refused(f"{key} needs two values at least, as in {{{kind}: [1, 2]}}")
        if kind == "choice":
            return cls(kind, [_text(value) for value in values])
        if len(values) > 2:
            raise Refused(
                f"{key} has {len(values)} numbers, but {kind} takes the lowest and the "
                f"highest; list values as {{choice: [...]}}"
            )
        low, high = (grid.converted(key, value) for value in values)
        numbers = isinstance(low, int | float) and isinstance(high, int | float)
        if not numbers or not low < high or (kind == "log_uniform" and low <= 0):
            above = " above 0" if kind == "log_uniform" else ""
            raise Refused(f"{key} goes from a lower to a higher number{above}")
        return cls(kind, [low, high])

    @property
    def listed(self) -> Sequence[Any]:
        """All values, where they can be counted; else none."""
        if self.kind == "int":
            return range(self.values[0], self.values[1] + 1)
        return self.values if self.kind == "choice" else ()

    def suggest(self, trial: Any, key: str) -> Any:
        """A value, chosen by the sampler."""
        if self.kind == "choice":
            return trial.suggest_categorical(key, self.values)
        if self.kind == "int":
            return trial.suggest_int(key, *self.values)
        return trial.suggest_float(key, *self.values, log=self.kind == "log_uniform")


def _text(value: Any) -> Any:
    """What Optuna can keep: a list of widths as on the command line."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What is searched, and how."""

    name: str
    fixed: dict[str, Any]
    """The settings that all trials have in common."""
    space: dict[str, Range]
    out: str = "runs"
    trials: int | None = None
    """In all; None for 20, or all combinations of a grid."""
    sampler: str = "tpe"
    pruner: str = "median"
    storage: str = ""
    """A URL of Optuna; by default a file beside the runs."""

    @property
    def root(self) -> Path:
        return Path(self.out) / self.name

    @property
    def most(self) -> int:
        """Trials to be made; a grid has no more than its combinations."""
        if self.sampler != "grid":
            return self.trials or TRIALS
        every = math.prod(len(space.listed) for space in self.space.values())
        return min(self.trials or every, every)

    def combination(self, number: int) -> dict[str, Any]:
        """Of a grid, whose last setting varies fastest."""
        every = itertools.product(*(x.listed for x in self.space.values()))
        values = next(itertools.islice(every, number, None))
        return dict(zip(self.space, values, strict=True))

    def variant(self, number: int, chosen: Mapping[str, Any]) -> Variant:
        own = {key: grid.converted(key, value) for key, value in chosen.items()}
        settings = grid.nested(self.fixed | own)
        return Variant.of(settings, f"{self.name}_t{number}", str(self.root))


def read(path: str) -> Plan:
    """The search in a YAML file; refuses it with all that is wrong."""
    reader = sheet.Reader(Path(path).stem, "search", OWN)
    pairs = reader.pairs(sheet.composed(path))
    _take_settings(reader, pairs)
    given = [pair for pair in pairs if pair[0] in OWN and pair[0] != "space"]
    own: dict[str, Any] = {key: reader.plain(node) for key, _, node in given}
    for key, line, _ in given:
        reader.wrong(line, _fault(key, own[key]))
    own["space"], empty = {}, True
    for key, line, node in pairs:
        if key == "space":
            space = reader.mapping(line, node, key, "{lr: {uniform: [0, 1]}}")
            own["space"] = _space(reader, space, own.get("sampler"))
            empty = not node.value
    if empty:
        reader.wrong(0, "no space; name settings, as in space: {lr: {uniform: [0, 1]}}")
    filled, out, _ = reader.sheet(path)
    (fixed,) = filled.variants()
    return Plan(name=filled.name, fixed=fixed, out=out, **own)


def _take_settings(reader: sheet.Reader, pairs: list[sheet.Pair]) -> None:
    """Those that all trials have in common: one value each."""
    reader.take([pair for pair in pairs if pair[0] not in (*OWN, *FOR_GRIDS)])
    for key, line, node in pairs:
        if key in FOR_GRIDS:
            what = "a search tries what is in space, on this machine"
            reader.wrong(line, f"{what}; {key} is for grids")
        elif key not in (*OWN, *sheet.SECTIONS):
            entry = reader.entry(key, line, node)
            known = not reader.fault_of_key(entry.key)
            reader.wrong(line, _fault_of_list(entry) if known else "")


def _fault_of_list(entry: sheet.Entry) -> str:
    if len(entry.values) < 2 or entry.key in sheet.PLACES:
        return ""
    values = ", ".join(str(value.plain) for value in entry.values[:2])
    example = f"{entry.key}: {{choice: [{values}{', ..' * (len(entry.values) > 2)}]}}"
    return (
        f"a search takes one value of {entry.key}; to try several, keep one here and "
        f"write {example} in space"
    )


def _space(
    reader: sheet.Reader, pairs: list[sheet.Pair], sampler: Any
) -> dict[str, Range]:
    found = {}
    for key, line, node in pairs:
        try:
            found[key] = Range.of(key, reader.plain(node))
        except Refused as refusal:
            reader.wrong(line, str(refusal))
            continue
        for value in found[key].values:
            reader.wrong(line, reader.fault(key, value))
        reader.wrong(line, _fault_in_space(key, found[key], sampler))
    return found


def _fault_in_space(key: str, space: Range, sampler: Any) -> str:
    if sampler != "grid" or space.listed:
        return ""
    return f"{key} has no end of values, but the sampler grid tries all: list a choice"


def _fault(key: str, value: Any) -> str:
    choices = {"sampler": tuple(SAMPLERS), "pruner": PRUNERS}.get(key)
    if choices and value not in choices:
        hint = suggestion(str(value), choices) or f"; choose {' or '.join(choices)}"
        return f"there is no {key} {value!r}{hint}"
    package = SAMPLERS[value] if key == "sampler" else ""
    if package and importlib.util.find_spec(package) is None:
        return f"the sampler {value} needs a package: pip install {package}"
    whole = isinstance(value, int) and not isinstance(value, bool)
    if key == "trials" and (not whole or value < 1):
        return f"trials is {value!r}, but must be a whole number from 1 on"
    if key == "storage" and not re.match(r"[\w+.-]+://|$", str(value)):
        return "storage is no URL of Optuna, as in sqlite:////home/me/trials.db"
    return ""


class Found(NamedTuple):
    """What a search came to."""

    settings: dict[str, Any]
    """Of the best trial; {} where the search was stopped before one was finished."""
    value: float
    directory: Path
    importance: dict[str, float]
    """Of each setting in the space, 1 in all; empty after too few trials."""
    stopped_by: Any = None

    @property
    def command(self) -> str:
        """Trains with these settings; "" where there are none."""
        if not self.settings:
            return ""
        rest = {k: x for k, x in self.settings.items() if k not in ("algo", "env")}
        words = [f"--{key} {_word(value)}" for key, value in rest.items()]
        start = f"jaxrl train {self.settings['algo']} --env {self.settings['env']}"
        return " ".join([start, *words])


def _word(value: Any) -> str:
    """As a shell takes it; a mapping as YAML in one line."""
    text = json.dumps(value) if isinstance(value, Mapping) else str(_text(value))
    return shlex.quote(text)


def run(plan: Plan, options: Options) -> Found:
    """Until all trials are made, or a signal came."""
    if importlib.util.find_spec("optuna") is None:
        raise Refused(
            "a search needs the package optuna; install it with pip install "
            "'jaxrl[search]'"
        )
    own: dict[str, Any] = {"sampler": plan.sampler, "pruner": plan.pruner}
    own |= {"storage": plan.storage}
    own |= {} if plan.trials is None else {"trials": plan.trials}
    faults = [_fault(key, value) for key, value in own.items()]
    faults += [_fault_in_space(*pair, plan.sampler) for pair in plan.space.items()]
    if wrong := [sentence for sentence in faults if sentence]:
        raise Refused("; ".join(wrong))
    first = {key: space.values[0] for key, space in plan.space.items()}
    for key, space in plan.space.items():
        for value in space.values:
            plan.variant(0, first | {key: value})  # refuses what cannot be run
    with directory.claimed(plan.root):  # leaves nothing where the storage is refused
        search = Search(plan)
    if search.is_over:
        if options.screen:
            print(f"{plan.name}: all {search.begun} trials are made already")
        return search.found()
    summary = runner.run(plan.name, [], options, search, plan.most)
    if summary.stopped_by and not search.has_found:
        return Found({}, math.nan, plan.root, {}, summary.stopped_by)
    return search.found()._replace(stopped_by=summary.stopped_by)


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


def _study(plan: Plan) -> Any:
    """What was tried so far; refuses a storage that cannot be used."""
    import optuna

    pruners = optuna.pruners.MedianPruner, optuna.pruners.NopPruner
    sampler, pruner = _sampler(plan.sampler), pruners[PRUNERS.index(plan.pruner)]()
    storage = plan.storage or f"sqlite:///{plan.root / 'trials.db'}"
    try:
        return optuna.create_study(
            study_name=plan.name,
            storage=storage,
            sampler=sampler,
            pruner=pruner,
            direction="maximize",
            load_if_exists=True,
        )
    except Exception as error:  # each kind of database has errors of its own
        raise Refused(_unusable(storage, error)) from None


def _changes(before: str, now: str) -> list[str]:
    """How two plans differ, a setting each."""
    one, two = _described(before), _described(now)
    differing = [key for key in one | two if one.get(key) != two.get(key)]
    absent = "its default"
    return [
        f"{key} was {one.get(key, absent)} and is {two.get(key, absent)}"
        for key in differing
    ]


def _described(plan: str) -> dict[str, str]:
    """Each setting with its value, or with its range as in a file."""
    fixed, space = json.loads(plan)
    ranges = {key: f"{{{kind}: {values}}}" for key, (kind, values) in space.items()}
    return {key: repr(value) for key, value in fixed.items()} | ranges


def _unusable(storage: str, error: Exception) -> str:
    """Why, in a line; a URL may hold a password, which is not for the screen."""
    reason = str(error.__cause__ or error).partition("\n")[0]
    who = storage.partition("://")[2].rpartition("@")[0]
    for secret in *re.split("[:@]", who)[1:], *re.findall("=([^&]*)", storage):
        reason = reason.replace(secret, "***") if secret else reason
    public = re.sub("://.*@", "://", storage).partition("?")[0]
    return f"the storage {public} cannot be used: {reason}"


class Search:
    """Asks Optuna for settings, and tells it what they were worth."""

    def __init__(self, plan: Plan) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._plan, self._optuna = plan, optuna
        self._study = _study(plan)
        self._refuse_another_search()
        self._trials: dict[str, Any] = {}
        self._reported: dict[str, int] = {}
        self._cut = [
            trial for trial in self._in_state("RUNNING") if self._is_ours(trial)
        ]

    def _refuse_another_search(self) -> None:
        """Trials of other settings must not be compared with these."""
        plan = self._plan
        now = json.dumps([plan.fixed, plan.space], sort_keys=True, default=str)
        before = self._study.user_attrs.setdefault("plan", now)
        if before != now:
            raise Refused(
                f"{plan.root} holds a search with other settings: "
                f"{', '.join(_changes(before, now))}; choose another name"
            )
        self._study.set_user_attr("plan", now)

    def _in_state(self, name: str) -> list[Any]:
        state = self._optuna.trial.TrialState[name]
        return self._study.get_trials(deepcopy=False, states=(state,))

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to be tried."""
        return not self._cut and self.begun >= self._plan.most

    @property
    def has_found(self) -> bool:
        return bool(self._in_state("COMPLETE"))

    @property
    def begun(self) -> int:
        """Trials, on whatever machine; one of a grid is enqueued before."""
        every = self._study.get_trials(deepcopy=False)
        return len(every) - len(self._in_state("WAITING"))

    def _is_ours(self, trial: Any) -> bool:
        return trial.user_attrs.get("where") == self._where

    @property
    def _where(self) -> str:
        return f"{socket.gethostname()}:{self._plan.root.absolute()}"

    # What the runner asks

    def more(self) -> Variant | None:
        """A trial that was cut, or else a new one."""
        if self._cut:
            frozen = self._cut.pop(0)
            trial = self._optuna.trial.Trial(self._study, frozen._trial_id)
        elif (begun := self.begun) < self._plan.most:
            if self._plan.sampler == "grid":
                following = self._plan.combination(begun)
                self._study.enqueue_trial(following, skip_if_exists=True)
            trial = self._study.ask()
            trial.set_user_attr("where", self._where)
        else:
            return None
        space = self._plan.space
        chosen = {key: range.suggest(trial, key) for key, range in space.items()}
        variant = self._plan.variant(trial.number, chosen)
        self._trials[variant.name] = trial
        return variant

    def judge(self, job: Job) -> str:
        """Reports its new epochs; says so where it is hopeless beside others."""
        trial, name = self._trials[job.variant.name], job.variant.name
        returns = self._returns(job)
        for epoch in range(self._reported.get(name, 0), len(returns)):
            if not np.isnan(returns[epoch]):
                trial.report(float(returns[epoch]), epoch)
        if len(returns) <= self._reported.get(name, 0):
            return ""
        self._reported[name] = len(returns)
        return "pruned: worse than others at this step" if trial.should_prune() else ""

    def ended(self, job: Job) -> None:
        """Tells Optuna its worth."""
        states = self._optuna.trial.TrialState
        trial = self._trials[job.variant.name]
        last = self._returns(job)[-LAST:]
        if job.state == "finished" and not np.isnan(last).all():
            self._study.tell(trial, float(np.nanmean(last)))
        elif job.cause.startswith("pruned"):
            self._study.tell(trial, state=states.PRUNED)
            (job.variant.path / reading.PRUNED).write_text(f"{job.cause}\n")
        else:
            self._study.tell(trial, state=states.FAIL)

    def _returns(self, job: Job) -> np.ndarray:
        return reading.returns(job.variant.progress)

    # What came of it

    def found(self) -> Found:
        """The best trial; refuses where there is none."""
        if not self.has_found:
            raise Refused(
                f"no trial was finished; see what they say in {self._plan.root}"
            )
        best = self._study.best_trial
        variant = self._plan.variant(best.number, best.params)
        hidden = ("exp_name", "out")
        settings = {k: x for k, x in variant.settings.items() if k not in hidden}
        return Found(settings, self._study.best_value, variant.path, self._importance())

    def _importance(self) -> dict[str, float]:
        measure = self._optuna.importance
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # It warns where all settings would come out equal, for want of trials.
            warnings.filterwarnings("error", category=UserWarning)
            try:
                by = measure.PedAnovaImportanceEvaluator()
                return measure.get_param_importances(self._study, evaluator=by)
            except (ValueError, RuntimeError, UserWarning):
                return {}
