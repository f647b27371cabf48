"""One row an epoch: to the screen, progress.csv, TensorBoard and Weights & Biases."""

import csv
import dataclasses
import errno
import importlib.util
import io
import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jaxrl.parallel.launch import LIVE, size
from jaxrl.parallel.stats import Stats, merge
from jaxrl.runs.columns import RETURNS
from jaxrl.runs.ending import EPOCH, NOTE

Row = dict[str, float | int | None]


Samples = tuple[list[str], dict[str, Stats]]
Pooled = Callable[[Mapping[str, Stats]], dict[str, Stats]]


class Logger:
    """Gathers values with `store`; `dump` writes their statistics as a row.

    `columns` are the names of the row in order. `spread` are the names that stand as
    Average, Std, Max and Min; all others as their mean. `pooled` puts the samples of
    all processes together; what becomes of the rows is the sinks' business.
    """

    def __init__(
        self, names: list[str], spread: set[str], history: list[Row], pooled: Pooled
    ) -> None:
        self.spread, self.names, self.history = spread, names, history
        self._pooled = pooled
        self._reserved = frozenset(names)
        self._stats: dict[str, Stats] = {}
        self._sinks: list[Any] = []

    def add_sink(self, sink: Any) -> None:
        """Anything with `write(row, step)` and `close()`."""
        self._sinks.append(sink)

    @property
    def returns(self) -> list[str]:
        """The columns by which a run is judged."""
        columns = [column for name in self.names for column in self._columns(name)]
        return [name for name in RETURNS if name in columns]

    def _columns(self, name: str) -> list[str]:
        if name not in self.spread:
            return [name]
        return [f"{kind}{name}" for kind in ("Average", "Std", "Max", "Min")]

    @property
    def stored(self) -> set[str]:
        """The names with samples since the last row."""
        return set(self._stats)

    def store_own(self, values: Any) -> None:
        """Adds a user's metrics, which must not be taken for the library's."""
        if not isinstance(values, Mapping):
            raise TypeError(f"on_epoch returns metrics by name or None, got {values!r}")
        for name, value in values.items():
            if name in self._reserved:
                raise ValueError(f"{name} is a column of jaxrl's; name yours otherwise")
            try:
                self.store(**{name: value})
            except (TypeError, ValueError):
                raise ValueError(f"{name} is {value!r}, but must be a number") from None

    def store(self, **values: Any) -> None:
        """Adds numbers or arrays of them to the epoch's samples."""
        for name, value in values.items():
            self._stats[name] = merge(self._stats.get(name, Stats()), Stats.of(value))

    def dump(self, step: int) -> Row:
        """Writes the row of this epoch, with None where nothing was stored."""
        pooled, self._stats = self._pooled(self._stats), {}
        strangers = pooled.keys() - set(self.names)
        if strangers and self.history:
            raise ValueError(
                f"{', '.join(sorted(strangers))} was not in the first row, and the "
                "columns are fixed then; store it in the first epoch too"
            )
        self.names += sorted(strangers)
        row: Row = {}
        for name in self.names:
            stats = pooled.get(name, Stats())
            kinds = (stats.mean, stats.n and stats.std, stats.max, stats.min)
            for column, value in zip(self._columns(name), kinds, strict=False):
                row[column] = value if stats.n else None
        for sink in self._sinks:
            sink.write(row, step)
        self.history.append(row)
        return row

    def saved(self) -> dict[str, Any]:
        """The names, and the samples since the last row, for a checkpoint."""
        stats = {k: list(dataclasses.astuple(x)) for k, x in self._stats.items()}
        return {"names": list(self.names), "stats": stats}

    @staticmethod
    def samples(saved: Mapping[str, Any]) -> Samples:
        """What `saved` said."""
        stats = {name: Stats(*parts) for name, parts in saved["stats"].items()}
        return list(saved["names"]), stats

    def restore(self, samples: Samples) -> None:
        self.names, self._stats = samples

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()


def rows_of(progress: str) -> list[Row]:
    """Those of a progress.csv."""
    return [
        {name: float(cell) if cell else None for name, cell in row.items()}
        for row in csv.DictReader(progress.splitlines())
    ]


class Csv:
    """progress.csv; a row is whole on the disk before the next begins."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.open("ab", buffering=0)

    @property
    def text(self) -> str:
        return self._path.read_text()

    def write(self, row: Row, step: int) -> None:
        size = os.fstat(self._file.fileno()).st_size
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not size:
            writer.writerow(row)
        writer.writerow("" if x is None else f"{x:.9g}" for x in row.values())
        data = text.getvalue().encode()
        try:
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(size)
            raise

    def close(self) -> None:
        self._file.close()


class Board:
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


class Wandb:
    """Weights & Biases; `WANDB_MODE=offline` keeps it on this machine."""

    def __init__(
        self, directory: Path, config: Mapping[str, Any], earlier: str | None
    ) -> None:
        import wandb

        self._run = wandb.init(
            project="jaxrl",
            name=directory.name,
            dir=str(directory),
            config=dict(config),
            id=earlier,
            resume="allow",
        )

    @staticmethod
    def refuse_absence() -> None:
        if importlib.util.find_spec("wandb") is None:
            raise ValueError(
                "--wandb needs the package wandb; install it with pip install "
                "'jaxrl[wandb]'"
            )
        import wandb

        offline = os.environ.get("WANDB_MODE") in ("offline", "dryrun", "disabled")
        if not offline and not wandb.api.api_key:
            raise ValueError(
                "--wandb needs a login: run wandb login, or set WANDB_MODE=offline"
            )

    @property
    def id(self) -> str:
        """By which a resumed run is known to be the same."""
        return self._run.id

    def write(self, row: Row, step: int) -> None:
        known = {name: value for name, value in row.items() if value is not None}
        self._run.log(known, step=step)

    def film(self, path: Path, step: int) -> None:
        import wandb

        self._run.log({"film": wandb.Video(str(path))}, step=step)

    def close(self) -> None:
        self._run.finish()


class Screen:
    """A table and a live line on a terminal; elsewhere a plain line an epoch."""

    def __init__(self, total_steps: int, done: int = 0, stream: Any = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._live = bool(getattr(self._stream, "isatty", lambda: False)())
        if size() > 1:  # mpirun lets every rank believe that it has a terminal
            self._live = os.environ.get(LIVE) == "1"
        self._total = total_steps
        # Steps and time at the start, then at the ends of the last epochs.
        self._marks = deque([(done, time.perf_counter())], maxlen=6)
        self._shown, self._latest = 0.0, ""

    def write(self, row: Row, step: int) -> None:
        tested = row.get("AverageTestEpRet") is not None
        name = "AverageTestEpRet" if tested else "AverageEpRet"
        value = row.get(name)
        self._latest = "" if value is None else f"{name[7:]} {value:.1f}"
        if self._live:
            self._print("\r\033[K" + table(row.items()))
            self.progress(step, force=True)
        else:
            self._print(f"{EPOCH}{row['Epoch']:.0f}  {self._status(step)}")
        self._marks.append((step, time.perf_counter()))

    def progress(self, step: int, force: bool = False) -> None:
        """The live line, at most ten times a second."""
        now = time.perf_counter()
        if not self._live or (now - self._shown < 0.1 and not force):
            return
        self._shown = now
        done = int(30 * step / self._total)
        bar = "█" * done + "░" * (30 - done)
        self._print(f"\r\033[K{bar} {self._status(step)}", end="")

    def notes(self, texts: Iterable[str]) -> None:
        """A line each."""
        for text in texts:
            self._print(("\r\033[K" if self._live else "") + f"{NOTE}{text}")

    def close(self) -> None:
        if self._live:
            self._print("\r\033[K", end="")

    def _status(self, step: int) -> str:
        # The first epoch compiles, so it counts only until there is more to go by.
        later = [mark for mark in list(self._marks)[1:] if mark[0] < step]
        before, then = later[0] if later else self._marks[0]
        made, seconds = step - before, time.perf_counter() - then
        left = seconds * (self._total - step) / max(made, 1)
        parts = [f"{step}/{self._total} steps", f"{made / seconds:.0f} steps/s"]
        parts += [self._latest] if self._latest else []
        return "  ".join([*parts, f"{clock(left)} left"])

    def _print(self, text: str, end: str = "\n") -> None:
        try:
            print(text, end=end, file=self._stream, flush=True)
        except (OSError, ValueError):  # nobody looks any more; the run goes on
            self._stream, self._live = io.StringIO(), False


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _shown(value: Any) -> str:
    """Three digits of a real number, all of a whole one."""
    if value is None:
        return ""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.3g}"


def table(items: Iterable[tuple[str, Any]]) -> str:
    """Spinning Up's box of names and values."""
    rows = [(name, _shown(x)) for name, x in items]
    wide = max(len(name) for name, _ in rows)
    rule = "-" * (wide + 22)
    lines = [f"| {name:>{wide}} | {text:>15} |" for name, text in rows]
    return "\n".join([rule, *lines, rule])
