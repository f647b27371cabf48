"""Writes checkpoints in a separate thread, and removes old ones."""

import concurrent.futures
import json
import os
import shutil
import time
from pathlib import Path

import numpy as np

from jaxrl.files import remove, replacing, write_atomically
from jaxrl.runs import arrays
from jaxrl.runs.checkpoint import (
    FORMAT,
    Damaged,
    Saved,
    checkpoint_path,
    checksum,
    read_manifest,
    segment_path,
)
from jaxrl.runs.reading import MANIFEST, saved_checkpoints

MAX_TIME_SHARE = 0.02  # of a run's time that its checkpoints may take
# More in the first seconds of each start, so that a run that is killed again and again
# soon after its start progresses: one at the end of the first epoch, others soon.
MORE_AT_FIRST, FIRST_SECONDS = 0.03, 60.0
FIRST_COST = 0.5  # seconds, until one was written


class NotSaved(OSError):
    """A checkpoint that could not be written; the one before is kept."""


class CheckpointWriter:
    """Writes the checkpoints of one run, one at a time, while training continues.

    The newest `keep` stay. The replay rows of the checkpoint that a run resumed from
    are never written again, so their checksums are kept; checkpoints after that one
    are damaged, and removed with the next save.
    """

    def __init__(self, run: Path, keep: int, resumed_from: Saved | None) -> None:
        self._run, self._keep = run, keep
        self._segments = dict(resumed_from.segments) if resumed_from else {}
        good = resumed_from.number if resumed_from else 0
        self._damaged = [n for n in saved_checkpoints(run) if n > good]
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._last: concurrent.futures.Future[None] | None = None
        self._next = max(saved_checkpoints(run), default=0) + 1
        self._spent, self._cost = 0.0, FIRST_COST

    def affordable(self, seconds: float) -> bool:
        """Whether another one stays within its share of a run that took so long."""
        busy = self._last is not None and not self._last.done()
        allowed = MAX_TIME_SHARE * seconds
        allowed += MORE_AT_FIRST * min(seconds, FIRST_SECONDS)
        first = self._last is None
        return first or (not busy and self._spent + self._cost < allowed)

    def save(self, saved: Saved, capacity: int = 0) -> None:
        """Starts to save; raises what went wrong with the one before."""
        self.wait()
        self._last = self._thread.submit(self._write, self._next, saved, capacity)
        self._next += 1

    def wait(self) -> None:
        """Until the last one is on the disk; raises if it could not be written."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Waits until everything is written."""
        self._thread.shutdown()

    def _write(self, number: int, saved: Saved, capacity: int) -> None:
        import orbax.checkpoint  # noqa: F401  not a cost of the checkpoints to come

        start = time.perf_counter()
        try:
            self._write_files(number, saved, capacity)
            self._cost = time.perf_counter() - start
            self._spent += self._cost
        except Exception as error:  # orbax raises many kinds for a full disk
            reason = " ".join(str(error).split())[:200]
            raise NotSaved(
                f"checkpoint {number} could not be saved: {reason}"
            ) from error

    def _write_files(self, number: int, saved: Saved, capacity: int) -> None:
        path = checkpoint_path(self._run, number)
        path.parent.mkdir(exist_ok=True)  # but not the run's, which may be removed
        remove(path)
        path.mkdir()  # fails where there is one: all files in it are new
        rest = arrays.save(path / "arrays", saved.content) | {"format": FORMAT}
        self._save_rows(saved, capacity)
        (path / "rest.json").write_text(json.dumps(rest))
        (path / "run.yaml").write_text(saved.config)
        (path / "progress.csv").write_text(saved.progress, newline="")
        files = [file for file in sorted(path.rglob("*")) if file.is_file()]
        known = {file: checksum(file, sync=True) for file in files}
        known |= {segment_path(self._run, s): x for s, x in self._segments.items()}
        sums = {os.path.relpath(file, path): total for file, total in known.items()}
        write_atomically(path / MANIFEST, json.dumps(sums, indent=1))
        self._prune()

    def _save_rows(self, saved: Saved, capacity: int) -> None:
        if saved.rows is None:
            return
        end = saved.first + len(saved.rows)
        if len(saved.rows):
            file = segment_path(self._run, (saved.first, end))
            file.parent.mkdir(exist_ok=True)
            with replacing(file) as fresh, fresh.open("wb") as stream:
                np.save(stream, saved.rows, allow_pickle=False)
            self._segments[saved.first, end] = checksum(file, sync=True)
        oldest = end - capacity
        self._segments = {s: x for s, x in self._segments.items() if s[1] > oldest}

    def _prune(self) -> None:
        """Removes old checkpoints, and rows that none of those kept needs."""
        good = [n for n in saved_checkpoints(self._run) if n not in self._damaged]
        for number in (*self._damaged, *good[: -self._keep]):
            path = checkpoint_path(self._run, number)
            (path / MANIFEST).unlink(missing_ok=True)  # first, so it is never half
            shutil.rmtree(path, ignore_errors=True)
        self._damaged = []
        needed = set().union(*map(self._needed_files, good[-self._keep :]))
        for file in (self._run / "replay").glob("*.npy"):
            if file.name not in needed:
                remove(file)

    def _needed_files(self, number: int) -> set[str]:
        """Names of the files of a checkpoint; none, if its manifest is damaged."""
        try:
            manifest = read_manifest(checkpoint_path(self._run, number))
        except Damaged:  # an old one, from which nobody resumed
            return set()
        return {Path(name).name for name in manifest}
