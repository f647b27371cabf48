"""Films of a run under way, made by `jaxrl video` in a process of its own.

So nothing that draws can disturb the run: neither its random numbers, nor its
memory, nor its life.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from jaxrl.errors import UserError
from jaxrl.processes import mpirun
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import directory
from jaxrl.runs.spec import Run
from jaxrl.show import video

REHEARSAL = "import json, sys; from jaxrl.show import video; "
REHEARSAL += "video.check_recording(*json.loads(sys.argv[1]))"


def rehearse(run: Run) -> None:
    """Refuses, before it starts, a run that could not be filmed here."""
    given = json.dumps([run.env, run.env_kwargs])
    try:
        _run(["-c", REHEARSAL, given], StopRequest())
    except UserError as error:
        raise UserError(f"--video_every cannot film here: {error}") from None


def film(run: Path, step: int, stop: StopRequest) -> bytes | None:
    """Films the model that is kept of a step; a preview of it, as a GIF.

    None if a signal came first: then there is no film yet.
    """
    output = directory.video_path(run, step)
    output.parent.mkdir(exist_ok=True)
    words = ["-m", "jaxrl", "video", run, "--model", step, "-o", output]
    _run(list(map(str, words)), stop)
    return video.preview(output) if output.exists() else None


def _run(words: list[str], stop: StopRequest) -> None:
    """Python, to its end or a signal; refused with its last line, if it failed."""
    with subprocess.Popen(
        [sys.executable, "-P", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        # It finds the modules that this process finds, and no others.
        env=mpirun.environment_without_ranks()
        | {"PYTHONPATH": os.pathsep.join(sys.path)},
        process_group=0,  # so that Ctrl-C comes from us, and once
    ) as process:
        try:
            said = _last_words(process, stop)
        finally:
            process.kill()  # if we were interrupted
    if process.returncode and not stop.signal:
        _, _, reason = said.strip().rpartition("\n")[2].partition(": ")
        raise UserError(reason or f"it ended with code {process.returncode}")


def _last_words(process: subprocess.Popen, stop: StopRequest) -> str:
    """What it has written to stderr by its end, which a signal hastens."""
    hastened = False
    while True:
        try:
            return process.communicate(timeout=0.1)[1]
        except subprocess.TimeoutExpired:
            if stop.signal and not hastened:
                process.send_signal(signal.SIGINT)
                hastened = True
