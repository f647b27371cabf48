"""The training loop of JAX environments: calls of one compiled program.

Between two calls, about a second apart, runs can be stopped, and a resumed run is
identical to one that was not.
"""

from collections.abc import Callable, Sequence

from jaxrl.logging.terminal import Terminal
from jaxrl.training import epoch
from jaxrl.training.epoch import Training
from jaxrl.training.fused import Row
from jaxrl.training.jax_engine import Engine
from jaxrl.training.jax_setup import stats

OnFailure = Callable[[Training, Exception], None]


def run_loop(
    trainings: Sequence[Training],
    terminal: Terminal | None = None,
    on_failure: OnFailure | None = None,
) -> None:
    """Calls the program; at the end of an epoch evaluates, logs and saves.

    The runs share an engine. Where one fails, `on_failure` is called, if there is one,
    and the others continue.
    """
    runs = Runs(trainings, terminal, on_failure)
    runs.each(epoch.start)
    while runs.unfinished:
        if runs.all[0].stop.reached():
            runs.each(save_and_stop, runs.unfinished)
            break
        if wait_for_compiler(runs):
            call(runs)
    runs.each(epoch.end)


class Runs:
    """The runs of an engine; those that fail leave it."""

    def __init__(
        self,
        trainings: Sequence[Training],
        terminal: Terminal | None,
        on_failure: OnFailure | None,
    ) -> None:
        self.all, self.healthy = list(trainings), list(trainings)
        self.terminal, self._on_failure = terminal, on_failure

    @property
    def engine(self) -> Engine:
        return self.all[0].setup.engine

    @property
    def unfinished(self) -> list[Training]:
        return [x for x in self.healthy if not x.is_complete]

    @property
    def env_steps(self) -> int:
        """Of all."""
        return sum(x.setup.progress.env_steps for x in self.all)

    def each(
        self,
        action: Callable[[Training], None],
        some: Sequence[Training] | None = None,
    ) -> None:
        """Does it for each run, or for some of them."""
        for training in list(self.healthy if some is None else some):
            try:
                action(training)
            except Exception as error:
                if self._on_failure is None:
                    raise
                self.healthy.remove(training)
                self._on_failure(training, error)


def save_and_stop(training: Training) -> None:
    """Saves a checkpoint of the run and its last model, and stops it."""
    _take_state(training)
    epoch.save_and_stop(training)


def _take_state(training: Training) -> None:
    training.state = training.setup.state


def wait_for_compiler(runs: Runs) -> bool:
    """Whether it is done; waits a little."""
    ready = runs.engine.ready(0.1)
    if runs.terminal and ready:
        runs.terminal.compiled()
    elif runs.terminal:
        runs.terminal.compiling(runs.env_steps)
    return ready


def call(runs: Runs) -> None:
    """One call of the program, and what follows the end of an epoch."""
    first = min(runs.unfinished, key=lambda x: x.setup.progress.env_steps)
    left, before = first.setup.rounds_left, runs.env_steps
    alike = {x.setup.index: x for x in runs.unfinished if x.setup.rounds_left == left}
    done = runs.engine.advance(list(alike), left)
    trained = [alike[index] for index in done.runs]
    for training in trained:
        setup = training.setup
        setup.progress.env_steps += done.rounds * setup.round_steps
    runs.each(lambda training: training.setup.check_finite(), trained)
    if runs.terminal:
        runs.terminal.updated(runs.env_steps, runs.env_steps - before)
        runs.terminal.progress(runs.env_steps)
    if done.rows is not None:
        rows = dict(zip(done.runs, done.rows, strict=True))
        ended = [x for x in trained if x in runs.healthy]
        runs.each(lambda x: end_epoch(x, rows[x.setup.index]), ended)


def end_epoch(training: Training, rows: list[Row]) -> None:
    """Evaluates, logs and saves; `rows` are those of the run's devices."""
    _take_state(training)
    training.setup.progress.epoch += 1
    for row in map(stats, rows):
        training.log.store_stats(**row)
    training.log.store_stats(**training.setup.evaluate())
    epoch.finish(training)
