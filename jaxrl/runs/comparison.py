"""Compares a run with its repetition: every cell, policies, and what they ran on.

Free of JAX, as all that reads runs.
"""

import csv
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl import files
from jaxrl.errors import UserError
from jaxrl.logging.columns import CLOCKS, STEPS
from jaxrl.policy import Policy
from jaxrl.runs.reading import Record

SECONDS = 60.0  # of training that are repeated where nobody says how much
Cells = list[dict[str, str]]


class Difference(NamedTuple):
    """The first one."""

    where: str
    before: str
    now: str


class Compared(NamedTuple):
    """What was compared."""

    epochs: int
    columns: int
    models: int
    own: list[str]
    """Columns that are in one of the two alone, such as a user's own metrics."""
    difference: Difference | None


def default_epochs(record: Record) -> int:
    """About a minute's worth, at least one."""
    seconds = record.progress.get("Time", np.empty(0))
    return max(int(np.sum(seconds <= SECONDS)), 1)


def compare(record: Record, repeated: Record, epochs: int) -> Compared:
    """Of the first epochs, every cell but the clocks, and the models that both have."""
    before, now = _cells(record, epochs), _cells(repeated, epochs)
    if len(now) < epochs:
        raise UserError(f"only {len(now)} of {epochs} epochs were repeated")
    names = [x for x in before[0] if x in now[0] and x not in CLOCKS]
    own = [x for x in {**before[0], **now[0]} if x not in names and x not in CLOCKS]
    difference = _first_difference(before, now, names)
    steps = int(float(before[-1][STEPS]))
    models = _common_models(record, repeated, steps)
    for step in models:
        there, here = (_digest(one.policy(step)) for one in (record, repeated))
        if there != here and difference is None:
            difference = Difference(
                f"SHA-256 of the policy at step {step}", there, here
            )
    return Compared(len(before), len(names), len(models), own, difference)


def _cells(record: Record, epochs: int) -> Cells:
    file = record.path / "progress.csv"
    _ = record.progress  # raises if it is damaged
    text = files.read_text(file, files.TABLE, inside=record.path)
    whole = text[: text.rfind("\n") + 1]  # a last line without its end is being written
    return list(csv.DictReader(io.StringIO(whole, newline="")))[:epochs]


def _first_difference(before: Cells, now: Cells, names: list[str]) -> Difference | None:
    for epoch, (there, here) in enumerate(zip(before, now, strict=True), 1):
        for name in names:
            if there[name] != here[name]:
                where = f"{name} in epoch {epoch}"
                return Difference(where, there[name] or "empty", here[name] or "empty")
    return None


def _common_models(record: Record, repeated: Record, last: int) -> list[int]:
    """The steps of the models that both kept, up to the last one that is compared."""
    both = {*record.model_steps} & {*repeated.model_steps}
    return sorted(step for step in both if step <= last)


def _digest(policy: Policy) -> str:
    arrays = [array for layer in policy.layers for array in layer]
    arrays += [np.asarray(policy.log_std), np.asarray(policy.noise)]
    arrays += [x for x in (policy.mean, policy.std) if x is not None]
    return digest({str(i): np.asarray(array) for i, array in enumerate(arrays)})


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of arrays, their names, shapes and types; the first digits."""
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def machine_differences(before: Any, now: Mapping[str, Any]) -> list[str]:
    """What differs in versions, threads and machine, a phrase each."""
    there, here = _flat(before), _flat(now)
    return [
        f"{name}: {there.get(name, 'unknown')} there, {here.get(name, 'none')} here"
        for name in there | here
        if there.get(name) != here.get(name)
    ]


def _flat(machine: Any) -> dict[str, str]:
    """With the version of each package under its name."""
    if not isinstance(machine, Mapping):
        return {}
    versions = machine.get("versions")
    flat = {str(k): str(x) for k, x in machine.items() if k != "versions"}
    return flat | {
        str(k): str(x)
        for k, x in (versions.items() if isinstance(versions, Mapping) else ())
    }


def end_of_first_part(record: Record) -> tuple[int, int] | None:
    """The step at which a run was first made longer, and its total steps before.

    A learning rate that decays over the run was another until then.
    """
    known = record.config.get("extended")
    try:
        first = known[0]  # type: ignore[index]
        step, total = first["step"], first["total_steps"]
    except (TypeError, KeyError, IndexError):
        return None
    right = type(step) is int and type(total) is int and step > 0 and 0 < total < 10**18
    return (step, total) if right else None


def repeatable_epochs(record: Record) -> int:
    """Finished epochs, before the run was made longer."""
    steps = record.progress.get(STEPS, np.empty(0))
    part = end_of_first_part(record)
    return int(np.sum(steps <= part[0])) if part else len(steps)


def temporary_run(place: Path, record: Record) -> Path:
    """Where its repetition is."""
    return place / record.name
