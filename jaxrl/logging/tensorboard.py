"""TensorBoard: scalars, settings and videos of a run.

Event files are written here, through tensorboardX's protocol buffers, because its own
writer does so in a thread, which a full disk ends with a traceback.
"""

import contextlib
import itertools
import math
import os
import re
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from jaxrl.logging.appending import append
from jaxrl.logging.columns import Row


class TensorBoard:
    """A new event file for each start; `step` is where the run starts.

    TensorBoard then hides later steps of earlier files.
    """

    def __init__(self, directory: Path, step: int) -> None:
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        directory.mkdir(parents=True, exist_ok=True)
        self._file = _new_file(directory, f"{socket.gethostname()}.{step:012}")
        events = [Event(file_version="brain.Event:2")]
        if step:
            session = SessionLog(status=SessionLog.START)
            events.append(Event(step=step + 1, session_log=session))
        self._append(events)

    def _append(self, events: list[Any]) -> None:
        for event in events:
            event.wall_time = time.time()
        records = [_record(event.SerializeToString()) for event in events]
        append(self._file, b"".join(records))

    def describe(self, settings: Mapping[str, Any], metrics: Iterable[str]) -> None:
        """Shows the run as a row of the tab HPARAMS, with these metrics.

        Written among the run's own events; `add_hparams` would make a second run.
        """
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import hparams

        shown = {name: _as_hparam(value) for name, value in settings.items()}
        experiment, start, _ = hparams(shown, dict.fromkeys(metrics))
        self._append([Event(summary=experiment), Event(summary=start)])

    def write(self, row: Row, step: int) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        # Not by tensorboardX's `scalar`, which prints a warning for every NaN.
        values = [
            Summary.Value(tag=_tag(name), simple_value=float(value))
            for name, value in row.items()
            if value is not None
        ]
        events = [Event(step=step, summary=Summary(value=[one])) for one in values]
        self._append(events)

    def write_video(self, gif: bytes, step: int) -> None:
        """Shows a GIF among the images; videos would need moviepy to encode them."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        width, height = (int.from_bytes(gif[i : i + 2], "little") for i in (6, 8))
        image = Summary.Image(
            height=height, width=width, colorspace=3, encoded_image_string=gif
        )
        summary = Summary(value=[Summary.Value(tag="video", image=image)])
        self._append([Event(step=step, summary=summary)])

    def close(self) -> None:
        self._file.close()


def _new_file(directory: Path, name: str) -> FileIO:
    """TensorBoard reads files by name; two starts may fall within one second.

    Never one that is there, which may be a link to a file elsewhere.
    """
    for second in itertools.count(int(time.time())):
        with contextlib.suppress(FileExistsError):
            file = directory / f"events.out.tfevents.{second}.{name}"
            # A write that failed is cut off, and the next one follows what is left.
            return open(file, "xb", buffering=0, opener=_appending)
    raise AssertionError


def _appending(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND, 0o666)


def _tag(name: str) -> str:
    """Without the characters that TensorBoard does not take; `/` makes groups."""
    return re.sub(r"[^-/\w.]", "_", name).lstrip("/")


def _record(data: bytes) -> bytes:
    """TFRecord: the length, its checksum, the data, its checksum."""
    from tensorboardX.record_writer import masked_crc32c

    length = struct.pack("<Q", len(data))
    sums = [struct.pack("<I", masked_crc32c(part)) for part in (length, data)]
    return length + sums[0] + data + sums[1]


def _as_hparam(value: Any) -> Any:
    """Whatever TensorBoard cannot show as a number, as text."""
    if isinstance(value, bool | str) or value is None:
        return value
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        if math.isfinite(number := float(value)):
            return number
    return str(value)
