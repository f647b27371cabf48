"""Arrays that several processes see: what passes between a run and its workers.

Messages hold JSON and arrays, never pickles.
"""

import io
import json
import mmap
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxrl.spaces import EnvSpec

ACTION_BYTES = 8  # of the widest number in an action
ALIGNMENT = 64


def create(size: int) -> int:
    """A file descriptor of `size` bytes in memory, to pass to other processes."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("jaxrl")
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.ftruncate(file, size)
    return file


class SharedSteps:
    """One step of N environments: actions in, results out."""

    def __init__(self, spec: EnvSpec, count: int) -> None:
        wide = (count, spec.obs_size)
        self._row = spec.action.shape
        width = int(np.prod(spec.action.shape, dtype=int)) * ACTION_BYTES
        self._fields: dict[str, tuple[tuple[int, ...], str]] = {
            "action": ((count, width), "uint8"),
            "obs": (wide, spec.obs_dtype),
            "next_obs": (wide, spec.obs_dtype),
            "reward": ((count,), "float32"),
            "exact_reward": ((count,), "float64"),
            "terminated": ((count,), "bool"),
            "truncated": ((count,), "bool"),
            "episode_return": ((count,), "float64"),
            "episode_length": ((count,), "int64"),
        }
        sizes = [
            -(-int(np.prod(shape)) * np.dtype(kind).itemsize // ALIGNMENT) * ALIGNMENT
            for shape, kind in self._fields.values()
        ]
        self._starts = np.cumsum([0, *sizes]).tolist()
        self.size = self._starts[-1]
        self._arrays: dict[str, np.ndarray] = {}

    def open(self, file: int) -> None:
        """Maps the memory of `create`."""
        memory = mmap.mmap(file, self.size)
        for start, (name, (shape, kind)) in zip(
            self._starts, self._fields.items(), strict=False
        ):
            count = int(np.prod(shape))
            flat = np.frombuffer(memory, kind, count, start)
            self._arrays[name] = flat.reshape(shape)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def write_action(self, action: np.ndarray) -> str:
        """Puts actions there; returns the dtype with which to read them."""
        rows = np.ascontiguousarray(action).reshape(len(action), -1).view(np.uint8)
        self["action"][:, : rows.shape[1]] = rows
        return action.dtype.str

    def read_action(self, dtype: str, rows: slice) -> np.ndarray:
        """The actions of some rows."""
        width = int(np.prod(self._row, dtype=int)) * np.dtype(dtype).itemsize
        part = self["action"][rows, :width].copy()  # which the next step overwrites
        return part.view(dtype).reshape(-1, *self._row)


def pack(about: Any, arrays: Mapping[str, np.ndarray]) -> bytes:
    """JSON and arrays as one message."""
    text = json.dumps(about, default=lambda array: array.tolist())
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{"about": np.array(text), **arrays})
    return file.getvalue()


def unpack(message: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """What `pack` packed: plain data and arrays."""
    with np.load(io.BytesIO(message), allow_pickle=False) as archive:
        arrays = dict(archive)
    return json.loads(str(arrays.pop("about"))), arrays
