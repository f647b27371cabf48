"""What is called at the end of an epoch: video recording."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jaxrl.algos import is_file
from jaxrl.errors import UserError
from jaxrl.logging.sinks import Sinks
from jaxrl.maths.user_networks import FROM_PYTHON
from jaxrl.processes import ranks
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import directory
from jaxrl.runs.spec import Run


class EpochEnd(NamedTuple):
    """An epoch whose row is logged and whose model is saved."""

    epoch: int
    step: int
    sinks: Sinks
    stop: StopRequest


Callback = Callable[[EpochEnd], None]
"""Called after each epoch, and again if a run resumes at the end of one."""


class RecordVideo:
    """Records a video every `video_every` epochs, in a subprocess.

    So drawing cannot change the run: not its random numbers nor its memory, and it
    cannot crash it.
    """

    def __init__(self, run: Run, path: Path) -> None:
        self._run, self._path = run, path

    def check(self) -> None:
        """Raises, before the run starts, if no video can be recorded here."""
        if self._run.networks.startswith(FROM_PYTHON):
            raise UserError(
                "--video_every records in another process, which cannot find these "
                "networks; define them in a module that can be imported, or record "
                "later with jaxrl.load(directory, networks=...)"
            )
        words = ["check", self._run.env, json.dumps(self._run.env_kwargs)]
        try:
            _run_recorder(words, StopRequest())
        except UserError as error:
            raise UserError(f"--video_every cannot record here: {error}") from None

    def __call__(self, end: EpochEnd) -> None:
        video = directory.video_path(self._path, end.step)
        if not self._run.records_video(end.epoch) or video.exists():
            return
        try:
            preview = self._record(video, end)
        except UserError as error:
            end.sinks.note(f"no video of step {end.step}: {error}")
            return
        if preview:
            end.sinks.write_video(video, preview, end.step)

    def _record(self, video: Path, end: EpochEnd) -> bytes:
        """Records the model of this step; a small GIF, empty if a signal came first."""
        video.parent.mkdir(exist_ok=True)
        words = ["record", str(self._path), str(end.step), str(video)]
        # This run executes a user's algorithm too.
        words += [self._run.algo] if is_file(self._run.algo) else []
        _run_recorder(words, end.stop)
        if not video.exists():
            return b""
        # A second, which a signal waits for: nobody would make the preview later.
        return _run_recorder(["preview", str(video)], StopRequest())


def _run_recorder(words: list[str], stop: StopRequest) -> bytes:
    """What it prints; a signal ends it early, its failure raises with the reason."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "jaxrl.show.video", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # It finds the modules that this process finds, and no others.
        env=ranks.environment_without_ranks()
        | {"PYTHONPATH": os.pathsep.join(sys.path)},
        process_group=0,  # so that Ctrl-C comes from us, and once
    ) as process:
        try:
            printed = _communicate(process, stop)
        finally:
            process.kill()  # if we were interrupted
    if process.returncode and not stop.signal:
        raise UserError(_reason(printed) or f"exit code {process.returncode}")
    return b"" if process.returncode else printed


def _reason(printed: bytes) -> str:
    """What the last line of the output holds as data; drawing may print before it."""
    with contextlib.suppress(ValueError, IndexError, KeyError, TypeError):
        return str(json.loads(printed.splitlines()[-1])["reason"])
    return ""


def _communicate(process: subprocess.Popen, stop: StopRequest) -> bytes:
    """What it prints until its end; a signal to us interrupts it."""
    interrupted = False
    while True:
        try:
            return process.communicate(timeout=0.1)[0]
        except subprocess.TimeoutExpired:
            if stop.signal and not interrupted:
                process.send_signal(signal.SIGINT)
                interrupted = True
