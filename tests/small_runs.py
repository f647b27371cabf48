"""Small runs for tests: trained in a second, stopped, killed and compared."""

import csv
import os
import signal
import subprocess
import sys

import numpy as np

import jaxrl
from jaxrl.logging.columns import CLOCKS
from jaxrl.runs import arrays
from jaxrl.training import loop

SMALL_ON = {"steps_per_epoch": 64, "epochs": 2, "hidden": "8"}
SMALL_OFF = {
    "steps_per_epoch": 60,
    "epochs": 2,
    "hidden": "8",
    "batch_size": 8,
    "start_steps": 30,
    "update_after": 40,
    "update_every": 20,
    "num_test_episodes": 1,
    "max_ep_len": 15,
}


def small(algo, **changes):
    settings = SMALL_ON if algo in ("vpg", "trpo", "ppo") else SMALL_OFF
    return settings | changes


def train(tmp_path, algo, env, **changes):
    settings = {"out": str(tmp_path), "overwrite": True} | small(algo, **changes)
    return jaxrl.train(algo, env, screen=False, **settings)


def timeless(history):
    """The rows without their clocks."""
    return [{k: v for k, v in row.items() if k not in CLOCKS} for row in history]


def events(directory):
    """What TensorBoard reads: records of a length, a checksum, an event, a checksum."""
    from tensorboardX.proto.event_pb2 import Event

    for file in sorted((directory / "tb").iterdir()):
        data = file.read_bytes()
        while data:
            size = int.from_bytes(data[:8], "little")
            yield Event.FromString(data[12 : 12 + size])
            data = data[16 + size :]


def jaxrl_command(*words):
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from jaxrl.cli.main import main; raise SystemExit(main())",
        ]
        + [str(word) for word in words],
        capture_output=True,
        text=True,
        check=False,
    )


class Killed(BaseException):
    """Raised in place of the end of the process."""


def table(path):
    """The rows of progress.csv without its clocks."""
    rows = list(csv.DictReader((path / "progress.csv").read_text().splitlines()))
    return [{k: v for k, v in row.items() if k not in CLOCKS} for row in rows]


def at_step(monkeypatch, step, happens):
    """Lets something happen to a run before it takes this step."""
    collect = loop.collect

    def watched(training):
        if training.setup.progress.env_steps == step:
            monkeypatch.setattr(loop, "collect", collect)
            happens(training)
        collect(training)

    monkeypatch.setattr(loop, "collect", watched)


def always(writer, seconds):
    """No checkpoint is left out to save time."""
    return True


def kill(training):
    raise Killed


def signalled(training):
    os.kill(os.getpid(), signal.SIGTERM)


def assert_same(one, two):
    assert table(one.directory) == table(two.directory)
    same = arrays.flatten(one.state), arrays.flatten(two.state)
    for name in same[0]:
        np.testing.assert_array_equal(same[0][name], same[1][name], err_msg=name)
