"""Writes pictures to an .mp4, by ffmpeg in its own process."""

import contextlib
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from jaxrl.errors import UserError


class Mp4Writer:
    """Used as imageio's writer, which runs Python between fork and exec.

    JAX warns of that, because it has threads. Here the new process is in a group of
    its own instead, so that Ctrl-C does not cut the last pictures.
    """

    def __init__(self, path: Path, fps: float) -> None:
        self._path, self._fps = path, fps
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 closed in __exit__

    def append_data(self, picture: np.ndarray) -> None:
        """Adds a picture [height, width, 3], of the same even size as the first."""
        process = self._process or self._start(picture)
        assert process.stdin
        try:
            process.stdin.write(np.ascontiguousarray(picture, np.uint8).tobytes())
        except BrokenPipeError:
            self._end(process)
            raise

    def _start(self, picture: np.ndarray) -> "subprocess.Popen[bytes]":
        import imageio_ffmpeg

        height, width = picture.shape[:2]
        words = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y"]
        words += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
        words += ["-r", f"{self._fps:g}", "-i", "-", "-an", "-vcodec", "libx264"]
        words += ["-pix_fmt", "yuv420p", "-crf", "25", str(self._path)]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            process_group=0,
        )
        return self._process

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Waits until all is written; raises if it could not be."""
        assert process.stdin
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        if process.wait():
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip()
            reason = said.splitlines()[-1] if said else "ffmpeg failed"
            raise UserError(f"cannot write the video: {reason}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: Any, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._errors:
            if self._process is None:
                return
            if error is None:
                self._end(self._process)
                return
            self._process.kill()
            self._process.communicate()
