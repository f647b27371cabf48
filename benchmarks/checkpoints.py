"""What checkpoints cost a run whose replay is full.

    python benchmarks/checkpoints.py                # SAC on Hopper, 1M transitions
    python benchmarks/checkpoints.py --epochs 20

The ring is filled before the first step, so the first checkpoint writes all of it and
each later one an epoch's increment. Printed are, for each checkpoint, the seconds that
the training waited for it and those it was written for beside the training.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrl.runs import spec
from jaxrl.runs.checkpoint_writer import CheckpointWriter
from jaxrl.training import buffers, loop, setup, train


class Full(buffers.HostReplay):
    """Holds as many transitions as it can from the beginning."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        rng = np.random.default_rng(0)
        rng.standard_normal(out=self.rows, dtype=np.float32)
        self.rows[:, -1] = 0  # none is terminated
        self.inserted = len(self.rows)


def timed(owner: Any, name: str, seconds: list[float]) -> None:
    """Each call of the function adds its seconds."""
    function: Callable = getattr(owner, name)

    def clocked(*arguments: Any) -> Any:
        start = time.perf_counter()
        result = function(*arguments)
        seconds.append(time.perf_counter() - start)
        return result

    setattr(owner, name, clocked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=10, help="of 4000 steps [10]")
    parser.add_argument("--transitions", type=int, default=1_000_000, help="[1000000]")
    given = parser.parse_args()
    waited: list[float] = []
    written: list[float] = []
    timed(loop, "save_checkpoint", waited)
    timed(CheckpointWriter, "_write", written)
    setup.HostReplay = Full  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as out:
        settings = {"out": out, "epochs": given.epochs, "num_test_episodes": 0}
        settings |= {"start_steps": 0, "update_after": 0}
        settings["replay_size"] = given.transitions
        run = spec.make("sac", "Hopper-v4", settings)
        history = train.train(run, screen=False).history
    print("| checkpoint | training waited, s | written beside it, s |")
    print("| --- | --- | --- |")
    for number, pair in enumerate(zip(waited, written, strict=True), 1):
        print(f"| {number} | {pair[0]:.3f} | {pair[1]:.3f} |")
    total = history[-1]["Time"]
    print(f"\n{given.epochs} epochs in {total:.0f} s: the training waited for", end=" ")
    print(f"{sum(waited) / total:.2%}, {sum(written) / total:.2%} were written in")


if __name__ == "__main__":
    main()
