"""TensorBoard: scalars, settings and videos of a run."""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jaxrl.logging.logger import Row


class TensorBoard:
    """TensorBoard's events; those of an earlier life after `step` are dropped."""

    def __init__(self, directory: Path, step: int) -> None:
        from tensorboardX import SummaryWriter

        purge = step + 1 if step else None  # the first step to be dropped
        # Its files are named by the second, and two lives may begin within one.
        name = f".{step:012}"
        self._writer = SummaryWriter(
            str(directory), purge_step=purge, filename_suffix=name
        )
        self._failure: OSError | ValueError | None = None
        # Its thread would die of a full disk with a traceback, and then a full queue
        # would wait for it for ever.
        events = self._writer.file_writer.event_writer._ev_writer
        events.write_event = self._noting(events.write_event)
        events.flush = self._noting(events.flush)

    def _noting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Its failure, which is raised where the run can tell of it."""

        def tried(*arguments: Any) -> Any:
            try:
                return method(*arguments)
            except (OSError, ValueError) as error:  # the latter of a closed file
                self._failure = self._failure or error
                return None

        return tried

    def _flush(self) -> None:
        self._writer.flush()
        if self._failure:
            raise self._failure

    def describe(self, settings: Mapping[str, Any], metrics: Iterable[str]) -> None:
        """The run as a row of the tab HPARAMS, with these metrics.

        Written among the run's own events; `add_hparams` would make a second run.
        """
        from tensorboardX.summary import hparams

        shown = {name: _as_hparam(value) for name, value in settings.items()}
        experiment, start, _ = hparams(shown, dict.fromkeys(metrics))
        for summary in (experiment, start):
            self._writer.file_writer.add_summary(summary)
        self._flush()

    def write(self, row: Row, step: int) -> None:
        for name, value in row.items():
            if value is not None:
                self._writer.add_scalar(name, value, step)
        self._flush()

    def film(self, gif: bytes, step: int) -> None:
        """Among the images; `add_video` would need moviepy to encode it."""
        from tensorboardX.proto.summary_pb2 import Summary

        width, height = (int.from_bytes(gif[i : i + 2], "little") for i in (6, 8))
        image = Summary.Image(
            height=height, width=width, colorspace=3, encoded_image_string=gif
        )
        summary = Summary(value=[Summary.Value(tag="film", image=image)])
        self._writer.file_writer.add_summary(summary, step)
        self._flush()

    def close(self) -> None:
        try:
            self._writer.close()
        except OSError:  # told already; and it would be tried again at exit
            self._writer.file_writer.event_writer._closed = True


def _as_hparam(value: Any) -> Any:
    """Whatever TensorBoard cannot show as a number, in words."""
    if isinstance(value, bool | str) or value is None:
        return value
    number = isinstance(value, int | float) and math.isfinite(value)
    return value if number else str(value)
