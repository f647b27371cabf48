"""The training loop of a JAX environment: calls of one compiled program.

Between two calls, about a second apart, a run can be stopped, and a resumed run is
identical to one that was not.
"""

from jaxrl.training import epoch
from jaxrl.training.epoch import Training


def run_loop(training: Training) -> None:
    """Calls the program and, at the end of each epoch, evaluates, logs and saves."""
    setup, progress = training.setup, training.setup.progress
    epoch.start(training)
    while not progress.is_complete(setup.run.total_steps):
        if training.stop.reached():
            epoch.save_and_stop(training)
            break
        if wait_for_compiler(training):
            call(training)
    epoch.end(training)


def wait_for_compiler(training: Training) -> bool:
    """Whether it is done; waits a little."""
    terminal, setup = training.log.sinks.terminal, training.setup
    ready = setup.ready(0.1)
    if terminal and ready:
        terminal.compiled()
    elif terminal:
        terminal.compiling(setup.progress.env_steps)
    return ready


def call(training: Training) -> None:
    """One call of the program, and what follows the end of an epoch."""
    setup, terminal = training.setup, training.log.sinks.terminal
    before = setup.progress.env_steps
    row = setup.advance()
    training.state = setup.carry.state
    setup.check_finite()
    if terminal:
        step = setup.progress.env_steps
        terminal.updated(step, step - before)
        terminal.progress(step)
    if row is not None:
        setup.progress.epoch += 1
        training.log.store_stats(**row, **setup.evaluate())
        epoch.finish(training)
