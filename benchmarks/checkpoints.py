"""The cost of checkpoints for a run whose replay buffer is full.

    python benchmarks/checkpoints.py                # SAC on Hopper, 1M transitions
    python benchmarks/checkpoints.py --epochs 20

The buffer is filled before the first step, so the first checkpoint writes all of it and
each later one only an epoch's new transitions. For each checkpoint it prints how long
training waited for it and how long it was written in the background.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import records

from jaxrl.runs import spec
from jaxrl.runs.checkpoint_writer import CheckpointWriter
from jaxrl.training import buffers, epoch, setup, train


class Full(buffers.HostReplay):
    """A replay buffer that is full from the beginning."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        rng = np.random.default_rng(0)
        rng.standard_normal(out=self.rows, dtype=np.float32)
        self.rows[:, -1] = 0  # none is terminated
        self.inserted = len(self.rows)


def record_seconds(owner: Any, name: str, seconds: list[float]) -> None:
    """Make every call of the function append its duration to `seconds`."""
    method: Callable = getattr(owner, name)

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        result = method(*arguments)
        seconds.append(time.perf_counter() - start)
        return result

    setattr(owner, name, timed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=10, help="number of epochs [10]")
    parser.add_argument(
        "--epoch-steps", type=int, default=4000, help="steps per epoch [4000]"
    )
    parser.add_argument(
        "--transitions", type=int, default=1_000_000, help="replay capacity [1000000]"
    )
    given = parser.parse_args()
    waited: list[float] = []
    written: list[float] = []
    record_seconds(epoch, "save_checkpoint", waited)
    record_seconds(CheckpointWriter, "_write", written)
    setup.HostReplay = Full  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as out:
        settings = {"out": out, "epochs": given.epochs, "num_test_episodes": 0}
        settings |= {"start_steps": 0, "update_after": 0}
        settings |= {"steps_per_epoch": given.epoch_steps}
        settings |= {"replay_size": given.transitions}
        run = spec.make("sac", "Hopper-v4", settings)
        history = train.train(run, screen=False).history
    print(*records.origin().values(), sep="; ")
    print("\n| checkpoint | training waited, s | written in background, s |")
    print("| --- | --- | --- |")
    for number, pair in enumerate(zip(waited, written, strict=True), 1):
        print(f"| {number} | {pair[0]:.3f} | {pair[1]:.3f} |")
    total = history[-1]["Time"]
    print(f"\n{given.epochs} epochs took {total:.0f} s. Training waited for", end=" ")
    print(f"checkpoints {sum(waited) / total:.2%} of the time;", end=" ")
    print(f"writing took {sum(written) / total:.2%}.")


if __name__ == "__main__":
    main()
