"""Reading files that a stranger may have made, and replacing files as a whole.

Only a regular file of a sensible size is read, and it is opened without waiting: a
pipe, a device or a huge file in its place is an error and not an endless read. A link
is followed only where it stays inside the directory of its run.

A file is written under a name that nobody can prepare a link for, and then renamed: a
reader finds the old content or the new.
"""

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from io import BufferedReader, BufferedWriter
from pathlib import Path

# Limits in bytes, by what a file is for.
SMALL = 1_000_000  # status, manifests: kilobytes
SETTINGS = 200_000  # YAML, of which Python reads 70 kB a second in the worst case
TABLE = 50_000_000  # progress.csv, the state of environments in a checkpoint
MODEL = 2**30
MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # arrays of any size
TEMPORARY = ".new-"  # begins the names of files that are being written


class Unreadable(OSError):
    """A file that is not used: not regular, too large, or outside of its run."""


# Reading


def read_bytes(path: Path, limit: int = SMALL, inside: Path | None = None) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    With `inside`, the file must really be in that directory.
    """
    with open_regular(path, limit, inside) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:  # it has grown since it was opened
        raise _too_large(path, limit)
    return data


def read_text(path: Path, limit: int = SMALL, inside: Path | None = None) -> str:
    """The text of a file, with the limits of `read_bytes`."""
    return read_bytes(path, limit, inside).decode()


def open_regular(path: Path, limit: int, inside: Path | None = None) -> BufferedReader:
    """The file for reading, once it is known to be safe."""
    real = path
    if inside is not None:
        real = _resolved(path)
        if not real.is_relative_to(_resolved(inside)):
            raise Unreadable(f"{path} is a link to outside of {inside}")
    # Not waiting for the other end of a pipe; not a link put there since.
    no_link = os.O_NOFOLLOW if inside is not None else 0
    file = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | no_link)
    try:
        _require_regular(file, path)
        if os.fstat(file).st_size > limit:
            raise _too_large(path, limit)
    except BaseException:
        os.close(file)
        raise
    return open(file, "rb")


def reason(error: OSError | UnicodeDecodeError) -> str:
    """Why a file cannot be read or written, in a phrase."""
    return getattr(error, "strerror", None) or str(error)


def is_regular(path: Path, inside: Path) -> bool:
    """Whether it is a regular file that is really in that directory."""
    try:
        real = _resolved(path)
        return real.is_relative_to(_resolved(inside)) and real.is_file()
    except OSError:
        return False


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError:  # in Python 3.11 for links that lead to each other
        raise Unreadable(f"{path} is a link to itself") from None


def _require_regular(file: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise Unreadable(f"{path} is not a regular file")


def _too_large(path: Path, limit: int) -> Unreadable:
    return Unreadable(f"{path} has more than {limit:,} bytes")


# Writing


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replaces the file, also if the process is killed or the disk fills up meanwhile.

    `tempfile` would make it unreadable for other users.
    """
    data = content.encode() if isinstance(content, str) else content
    with replacing(path) as fresh, fresh.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new, empty file beside `path`, which takes its place if all went well."""
    fresh = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}{path.suffix}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(fresh, flags, 0o666))
    try:
        yield fresh
        fresh.rename(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(fresh)):
            error.filename, error.filename2 = str(path), None  # not ours, for people
        raise


@contextlib.contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """A new directory beside `path`, which takes its place if all went well."""
    fresh, old = (
        path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}") for _ in range(2)
    )
    fresh.mkdir()
    try:
        yield fresh
        with contextlib.suppress(FileNotFoundError):
            path.rename(old)
        fresh.rename(path)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    with contextlib.suppress(OSError):
        remove(old)


def append_to(path: Path) -> BufferedWriter:
    """The regular file for appending, made if there is none; never through a link.

    A file with several names (hard links) is copied first: the others stay as they are.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.lstat().st_nlink > 1 and stat.S_ISREG(path.lstat().st_mode):
            write_atomically(path, read_bytes(path, TABLE))
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        _require_regular(file, path)
    except BaseException:
        os.close(file)
        raise
    return open(file, "ab")


def remove(path: Path) -> None:
    """A file, a link or a whole directory; nothing, where there is none."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()


def remove_unfinished(directory: Path) -> None:
    """What a killed process was writing there."""
    for entry in directory.glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError):
            remove(entry)
