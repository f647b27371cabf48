"""Files that are replaced as a whole: a reader finds the old content or the new."""

import contextlib
import os
import secrets
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replaces the file, also if the process is killed or the disk fills up meanwhile.

    The temporary file stands beside it, under a name that nobody can prepare a link
    for. `tempfile` would make it unreadable for other users.
    """
    data = content.encode() if isinstance(content, str) else content
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    file = os.open(fresh, flags, 0o666)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
