"""The live line of a run: a bar and its status, drawn by rich."""

import contextlib
import importlib.util
import sys
from collections.abc import Iterable
from typing import Any

BAR = 30  # columns of the bar where there is room
SHORTEST = 8  # columns below which the bar is left out


def in_notebook() -> bool:
    """Whether this is a Jupyter kernel in which rich can update a line."""
    return "ipykernel" in sys.modules and bool(importlib.util.find_spec("ipywidgets"))


class Output:
    """A stream to print to; once it is closed or broken, a run continues without it."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._broken = stream, False

    def write(self, text: str) -> int:
        try:
            self._write(text)
        except (OSError, ValueError) as error:
            self._give_up(error)
        return len(text)

    def _write(self, text: str) -> None:
        if self._broken:
            return
        try:
            self._stream.write(text)
        except UnicodeEncodeError as error:
            known = text.encode(error.encoding, "replace").decode(error.encoding)
            self._stream.write(known)

    def flush(self) -> None:
        if not self._broken:
            try:
                self._stream.flush()
            except (OSError, ValueError, AttributeError) as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Says so, unless nobody reads any more."""
        self._broken = True
        reason = getattr(error, "strerror", None)
        if isinstance(error, BrokenPipeError) or not reason:
            return
        with contextlib.suppress(OSError, ValueError, AttributeError):
            said = (
                f"jaxrl: cannot write to standard output: {reason}; the run continues"
            )
            print(said, file=sys.stderr, flush=True)

    def isatty(self) -> bool:
        return bool(getattr(self._stream, "isatty", lambda: False)())

    def print(self, text: str) -> None:
        print(text, file=self, flush=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class LiveLine:
    """Starts with the first `show`; what others print meanwhile stands above it."""

    def __init__(self, output: Output, total: int) -> None:
        from rich.console import Console
        from rich.live import Live

        notebook = in_notebook()
        self._total = total
        self._console = Console(
            file=None if notebook else output,  # type: ignore[arg-type]
            force_terminal=None if notebook else True,
        )
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def show(self, step: int, parts: list[str]) -> None:
        """`parts` of the status, the least important ones second."""
        if not self._live.is_started:
            self._live.start()
            self._console.show_cursor(True)  # kill -9 would leave it hidden
        self._live.update(_Line(step, self._total, parts), refresh=True)

    def print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()


class _Line:
    """A bar and a status in one line, whatever the width."""

    def __init__(self, step: int, total: int, parts: list[str]) -> None:
        self._step, self._total, self._parts = step, total, parts

    def __rich_console__(self, console: Any, options: Any) -> Iterable[Any]:
        from rich.progress_bar import ProgressBar
        from rich.segment import Segment

        parts = list(self._parts)
        room = options.max_width - SHORTEST - 1  # a short bar tells more than the speed
        while len(parts) > 2 and len("  ".join(parts)) > room:
            del parts[1]
        status = "  ".join(parts)[: options.max_width]
        width = min(BAR, options.max_width - len(status) - 1)
        if width >= SHORTEST:
            bar = ProgressBar(total=self._total, completed=self._step, width=width)
            yield from console.render(bar, options.update_width(width))
            yield Segment(" ")
        yield Segment(status)
