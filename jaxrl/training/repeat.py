"""The first epochs of a run again, to see whether they are the same."""

import dataclasses
import signal
from pathlib import Path

from jaxrl.parallel import mpi
from jaxrl.runs.spec import Run
from jaxrl.training import init_from, session
from jaxrl.training.callbacks import EpochEnd
from jaxrl.training.setup import prepare


def repeat(run: Run, path: Path, epochs: int) -> None:
    """Trains the first epochs of a run in an empty directory, without showing it."""
    # What a run does beside learning is left out.
    bare = dataclasses.replace(run, wandb=False, video_every=0, checkpoint_every=0)
    setup, _ = init_from.apply(prepare(bare))
    if mpi.rank() == 0:
        path.mkdir(parents=True, exist_ok=True)

    def stop(end: EpochEnd) -> None:
        if end.epoch >= epochs and end.stop.signal is None:
            end.stop.signal = signal.SIGUSR1  # all ranks stop, as after a signal

    session.run(session.Start(setup, path, after_epoch=[stop]), screen=False)
