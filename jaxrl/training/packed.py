"""Several runs in one compiled program, each with its directory and its files.

They are what they would be alone: any one of them can be resumed, made longer, played.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from jaxrl.errors import UserError
from jaxrl.files import write_atomically
from jaxrl.logging.columns import RETURNS, STEPS, Row
from jaxrl.logging.stats import Stats
from jaxrl.logging.terminal import Terminal
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import directory, packing, status
from jaxrl.runs.reading import CONFIG
from jaxrl.runs.spec import Run
from jaxrl.training import jax_loop, session, train
from jaxrl.training.callbacks import EpochEnd
from jaxrl.training.epoch import Training
from jaxrl.training.jax_setup import SharedEngine
from jaxrl.training.session import Result
from jaxrl.training.train import ResumeOptions
from jaxrl.training.user_code import NONE, UserCode


@dataclasses.dataclass
class Member:
    """One of the runs: under way, ended or failed."""

    path: Path
    start: Any = None  # Start, once it is prepared
    attempt: Any = None
    training: Any = None  # Training, once it is open
    result: Result | None = None
    error: Exception | None = None
    claimed: ExitStack = dataclasses.field(default_factory=ExitStack)
    """Its directory and its status."""
    opened: ExitStack = dataclasses.field(default_factory=ExitStack)
    """What it writes."""

    def describe(self) -> None:
        """Opening many runs takes seconds; after a kill in them, all can be resumed."""
        if self.start.saved is None:
            text = directory.config_yaml(directory.description(self.start.setup.run))
            write_atomically(self.path / CONFIG, text)

    def open(self, stop: StopRequest) -> None:
        self.claimed.push(self.opened)
        self.opened.enter_context(train.noting(self.start, self.attempt))
        files = session.opened(self.start, stop, screen=False)
        self.training = self.opened.enter_context(files)

    def end(self) -> None:
        self.result = session.result(self.training)
        self.opened.close()
        train.note_end(self.start, self.attempt, self.result)
        self.claimed.close()

    def fail(self, error: Exception) -> None:
        """Closes what it has open and notes the failure in its status."""
        try:
            with self.claimed:
                raise error
        except Exception as known:
            self.error = known


def train_all(
    runs: Sequence[Run], screen: bool = True, user: UserCode = NONE
) -> list[Member]:
    """New runs; refuses bad input before anything is written or removed."""
    check(runs)
    for run in runs:
        if (path := directory.run_path(run)).exists():
            train.refuse_taken(run, path)
    with Pack(len(runs), screen) as pack:
        for run in runs:
            pack.add(
                directory.run_path(run), functools.partial(train.started, run, user)
            )
        return pack.run()


def train_seeds(
    run: Run, seeds: Sequence[int], screen: bool, user: UserCode
) -> list[Result]:
    """Of one run, several seeds; raises at the end if one has failed."""
    if user.on_epoch or user.callbacks:
        raise UserError(
            "on_epoch and callbacks are of one run; leave out seeds, or train the "
            "seeds one by one"
        )
    runs = [dataclasses.replace(run, seed=seed) for seed in seeds]
    members = train_all(runs, screen, user)
    if failed := [member for member in members if member.error]:
        reasons = [f"{x.path}: {status.describe(x.error)}" for x in failed if x.error]
        head = f"{len(failed)} of {len(members)} runs failed: "
        raise RuntimeError(head + "; ".join(reasons)) from failed[0].error
    return [member.result for member in members if member.result]


def resume_all(
    paths: Sequence[Path], options: ResumeOptions, screen: bool = True
) -> list[Member]:
    """Runs that were begun."""
    runs = [directory.read(directory.config_text(path)) for path in paths]
    if options.steps:  # then it does not matter that they had different ones
        runs = [dataclasses.replace(run, steps=options.steps) for run in runs]
    check(runs)
    with Pack(len(paths), screen) as pack:
        for path in paths:
            pack.add(path, functools.partial(train.resumed, path, options))
        return pack.run()


def check(runs: Sequence[Run]) -> None:
    """Refuses runs that one program of one process cannot train."""
    packing.refuse_different(runs)
    if runs[0].num_procs > 1:
        raise UserError(
            f"num_procs is {runs[0].num_procs}, but several runs in one program are "
            "trained by one process; --devices splits them over devices"
        )
    if runs[0].wandb:
        raise UserError(
            "Weights & Biases logs one run of a process; train the seeds one by one, "
            "or with jaxrl grid --no-pack"
        )


class Pack:
    """Runs that are prepared, and then trained together."""

    def __init__(self, size: int, screen: bool) -> None:
        self.members: list[Member] = []
        self._shared, self._screen = SharedEngine(size), screen
        self._stop, self._stack = StopRequest(), ExitStack()

    def __enter__(self) -> "Pack":
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def add(self, path: Path, prepared: Any, alone: bool = False) -> None:
        """Prepares a run; with `alone`, a refusal concerns only this one."""
        member = Member(path)
        self._stack.push(member.claimed)
        try:
            context = prepared(shared=self._shared)
            member.start, member.attempt = member.claimed.enter_context(context)
        except Exception as error:
            if not alone:
                raise
            member.fail(error)
        self.members.append(member)

    def run(self) -> list[Member]:
        """To the end of all, or a signal; one failure does not stop the others."""
        self._each(Member.describe)
        self._each(lambda member: member.open(self._stop))
        if self._sound():
            with _terminal(self._screen, self.members) as terminal:
                self._train(terminal)
            self._each(Member.end)
        return self.members

    def _sound(self) -> list[Member]:
        return [member for member in self.members if member.error is None]

    def _each(self, action: Callable[[Member], None]) -> None:
        for member in self._sound():
            try:
                action(member)
            except Exception as error:
                member.fail(error)

    def _train(self, terminal: Terminal | None) -> None:
        members = {id(member.training): member for member in self._sound()}

        def fail(training: Training, error: Exception) -> None:
            member = members[id(training)]
            member.fail(error)
            if terminal:
                show.leave_out(training)
                others = "; the others continue" if self._sound() else ""
                reason = status.describe(error)
                terminal.print(f"{member.path} failed: {reason}{others}")

        trainings = [member.training for member in members.values()]
        if terminal:
            show = Summary(terminal, trainings)
            for training in trainings:
                training.after_epoch = [*training.after_epoch, show]
        with self._stop:
            jax_loop.run_loop(trainings, terminal, fail)


@contextlib.contextmanager
def _terminal(screen: bool, members: Sequence[Member]) -> Iterator[Terminal | None]:
    """One for all runs, whose steps it counts together."""
    if not screen:
        yield None
        return
    setups = [member.start.setup for member in members if member.start]
    total = sum(setup.run.total_steps for setup in setups)
    terminal = Terminal(total, sum(setup.progress.env_steps for setup in setups))
    ends = dict.fromkeys(str(members[i].path) for i in (0, -1))
    runs = f"{len(members)} runs" if len(members) > 1 else "1 run"
    terminal.print(f"{runs} in one program, writing to {' ... '.join(ends)}")
    notes = [note for member in members if member.start for note in member.start.notes]
    for note in dict.fromkeys(notes):
        terminal.print(f"note: {note}")
    try:
        yield terminal
    finally:
        terminal.close()


class Summary:
    """Shows, after each epoch of all runs, what they have reached together."""

    def __init__(self, terminal: Terminal, trainings: Sequence[Training]) -> None:
        self._terminal, self._trainings = terminal, list(trainings)
        self._shown = min(x.setup.progress.epoch for x in trainings)

    def leave_out(self, training: Training) -> None:
        """One that has failed."""
        self._trainings.remove(training)

    def __call__(self, end: EpochEnd) -> None:
        """The epochs of which all runs have a row, but those that ended before."""
        logged = [x.log.history for x in self._trainings if x.log.history]
        open_ = [x for x in self._trainings if not _has_ended(x)]
        ready = (_epoch(x.log.history[-1]) if x.log.history else 0 for x in open_)
        newest = max(_epoch(history[-1]) for history in logged)
        for epoch in range(self._shown + 1, min(ready, default=newest) + 1):
            rows = [_row(history, epoch) for history in logged]
            here = [row for row in rows if _epoch(row) == epoch]
            steps = sum(int(row[STEPS] or 0) for row in rows)
            self._terminal.write(_summary(here, epoch), steps)
            self._shown = epoch


def _has_ended(training: Training) -> bool:
    """Whether it has logged its last row."""
    history, steps = training.log.history, training.setup.progress.env_steps
    logged = (history[-1][STEPS] or 0) if history else 0
    return training.is_complete and logged >= steps


def _epoch(row: Row) -> int:
    return int(row["Epoch"] or 0)


def _row(history: list[Row], epoch: int) -> Row:
    """That of an epoch, or of the nearest that the run has."""
    place = len(history) - 1 - _epoch(history[-1]) + epoch
    return history[min(max(place, 0), len(history) - 1)]


def _summary(rows: list[Row], epoch: int) -> Row:
    """Of the rows of an epoch, one of each run."""
    name = next(name for name in RETURNS if name in rows[0])
    returned = Stats.from_values([x for row in rows if (x := row[name]) is not None])
    summary: Row = {"Epoch": epoch, "Runs": len(rows)}
    if returned.n:
        summary |= {
            name: returned.mean,
            "StdOfRuns": returned.std,
            "MaxOfRuns": returned.max,
            "MinOfRuns": returned.min,
        }
    return summary | {"StepsPerSecond": sum(x["StepsPerSecond"] or 0 for x in rows)}
