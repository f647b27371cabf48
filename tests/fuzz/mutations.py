"""Ways to damage a file: as bytes, as text, as data, or by what is put in its place.

Each takes the random generator and the path, changes the file and says what it did.
"""

import io
import json
import os
import random
import re
import shutil
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from . import odd

Random = random.Random


# Bytes


def cut(rng: Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def cut_from_front(rng: Random, content: bytes) -> bytes:
    return content[rng.randrange(len(content) + 1) :]


def flip(rng: Random, content: bytes) -> bytes:
    """Other bytes in a few places."""
    changed = bytearray(content or b"x")
    for _ in range(rng.choice([1, 1, 3, 20])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def noise(rng: Random, content: bytes) -> bytes:
    return rng.randbytes(rng.choice([1, 100, 100_000]))


def double(rng: Random, content: bytes) -> bytes:
    return content * rng.choice([2, 3, 1000])


def empty(rng: Random, content: bytes) -> bytes:
    return b""


# Text


def other_number(rng: Random, content: bytes) -> bytes:
    """A number of the text replaced."""
    text = content.decode("utf-8", "surrogateescape")
    found = list(re.finditer(r"-?\d+(\.\d+)?(e-?\d+)?", text))
    if not found:
        return flip(rng, content)
    match = rng.choice(found)
    text = text[: match.start()] + rng.choice(odd.NUMBERS) + text[match.end() :]
    return text.encode("utf-8", "surrogateescape")


def other_word(rng: Random, content: bytes) -> bytes:
    """A word of the text replaced."""
    text = content.decode("utf-8", "surrogateescape")
    found = list(re.finditer(r"[A-Za-z_]\w*", text))
    if not found:
        return noise(rng, content)
    match = rng.choice(found)
    text = text[: match.start()] + rng.choice(odd.WORDS) + text[match.end() :]
    return text.encode("utf-8", "surrogateescape")


def insert(rng: Random, content: bytes) -> bytes:
    """A piece of text before one of the lines."""
    lines = content.splitlines(keepends=True)
    at = rng.randrange(len(lines) + 1)
    return b"".join([*lines[:at], rng.choice(odd.INSERTED).encode(), *lines[at:]])


def shuffle_lines(rng: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    if len(lines) > 1:
        one, two = rng.sample(range(len(lines)), 2)
        way = rng.randrange(3)
        if way == 0:
            lines[one], lines[two] = lines[two], lines[one]
        elif way == 1:
            lines.insert(one, lines[two])
        else:
            del lines[one]
    return b"".join(lines)


def recode(rng: Random, content: bytes) -> bytes:
    text = content.decode("utf-8", "replace")
    ways = [
        lambda: text.encode("utf-16"),
        lambda: text.encode("utf-8-sig"),
        lambda: text.replace("\n", "\r\n").encode(),
        lambda: text.replace("\n", "\r").encode(),
        lambda: text.replace(" ", "\u00a0").encode(),
    ]
    return rng.choice(ways)()


# Data


def other_data(rng: Random, content: bytes) -> bytes:
    """YAML or JSON with one of its parts replaced or left out."""
    try:
        data = yaml.safe_load(content)
        text = json.dumps(data) if content[:1] == b"{" else ""
        changed = _changed(data, rng)
        return (json.dumps(changed) if text else yaml.safe_dump(changed)).encode()
    except (yaml.YAMLError, ValueError, TypeError, AttributeError):
        return other_number(rng, content)


def _changed(value: Any, rng: Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value, key=str))
        way = rng.random()
        if way < 0.15:
            return {k: v for k, v in value.items() if k != key}
        if way < 0.25:
            return value | {rng.choice(["", "x", "é", 1, None]): value[key]}
        return value | {key: _changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        i = rng.randrange(len(value))
        return [*value[:i], _changed(value[i], rng), *value[i + 1 :]]
    return rng.choice(odd.VALUES)


def other_arrays(rng: Random, content: bytes) -> bytes:
    """An .npz or .npy with another array in it."""
    try:
        if content[:2] != b"PK":
            return _array(rng)
        with zipfile.ZipFile(io.BytesIO(content)) as old:
            parts = {name: old.read(name) for name in old.namelist()}
    except (zipfile.BadZipFile, OSError):
        return noise(rng, content)
    name = rng.choice(sorted(parts))
    way = rng.randrange(4)
    if way == 0:
        del parts[name]
    elif way == 1:
        parts[name] = bytes(1_500_000_000 if rng.random() < 0.1 else 10_000_000)
    else:
        parts[name if way == 2 else f"../../{name}"] = _array(rng)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        for name, part in parts.items():
            new.writestr(name, part)
    return file.getvalue()


def _array(rng: Random) -> bytes:
    """A file of NumPy with an unexpected array, or a header that promises too much."""
    if rng.random() < 0.3:
        shape = rng.choice(["(10000000000000,)", "(-1,)", "(2,)*9", "(99999, 99999)"])
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
        header = header.ljust(117) + "\n"
        size = len(header).to_bytes(2, "little")
        return b"\x93NUMPY\x01\x00" + size + header.encode()
    array = rng.choice(
        [
            np.array([{"a": 1}], dtype=object),
            np.full((4, 8), np.nan, np.float32),
            np.zeros((0,)),
            np.zeros((3, 5), np.complex64),
            np.array("{}"),
            np.array('{"format": 99}'),
            np.arange(7),
            np.full((8, 2), 1e38, np.float32),
            np.zeros((1,) * 32),
        ]
    )
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


# What replaces a file


def remove(rng: Random, path: Path) -> str:
    _clear(path)
    return "removed"


def directory(rng: Random, path: Path) -> str:
    _clear(path)
    path.mkdir()
    if rng.random() < 0.5:
        (path / "x").write_text("x")
    return "is a directory"


def pipe(rng: Random, path: Path) -> str:
    _clear(path)
    os.mkfifo(path)
    return "is a pipe"


def unix_socket(rng: Random, path: Path) -> str:
    _clear(path)
    with socket.socket(socket.AF_UNIX) as made:
        here = os.open(path.parent, os.O_RDONLY)
        made.bind(f"/proc/self/fd/{here}/{path.name}")
        os.close(here)
    return "is a socket"


def device(rng: Random, path: Path) -> str:
    _clear(path)
    target = rng.choice(["/dev/zero", "/dev/full", "/dev/random", "/dev/null"])
    path.symlink_to(target)
    return f"is a link to {target}"


def loop(rng: Random, path: Path) -> str:
    _clear(path)
    path.symlink_to(path.name)
    return "is a link to itself"


def dangling(rng: Random, path: Path) -> str:
    _clear(path)
    path.symlink_to("nowhere/at/all")
    return "is a link to nothing"


def sparse(rng: Random, path: Path) -> str:
    """A file of many gigabytes that takes no space."""
    if not path.is_file():
        return remove(rng, path)
    with path.open("ab") as file:
        file.truncate(rng.choice([300_000_000, 20_000_000_000]))
    return "is huge"


def _clear(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)


BYTES = [cut, cut_from_front, flip, noise, double, empty]
TEXT = [other_number, other_word, insert, shuffle_lines, recode]
PLACES = [remove, directory, pipe, unix_socket, device, loop, dangling, sparse]


def mutate(rng: Random, path: Path) -> str:
    """Damages one file, as it can be damaged; says how."""
    content = path.is_file() and path.stat().st_size < 10_000_000
    if rng.random() < 0.3 or not content:
        path.parent.mkdir(parents=True, exist_ok=True)
        return rng.choice(PLACES)(rng, path)
    ways: list[Callable[[Random, bytes], bytes]] = [rng.choice(BYTES)]
    if path.suffix in (".yaml", ".json"):
        ways += [rng.choice(TEXT), other_data, other_data]
    elif path.suffix in (".npz", ".npy"):
        ways += [other_arrays, other_arrays]
    elif path.suffix in (".csv", ".txt"):
        ways += [rng.choice(TEXT)] * 3
    chosen = rng.choice(ways)
    path.write_bytes(chosen(rng, path.read_bytes()))
    return chosen.__name__
