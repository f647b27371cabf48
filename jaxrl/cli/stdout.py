"""Standard output that lacks characters, is closed, or is on a full disk."""

import contextlib
import os
import sys


def replace_unencodable() -> None:
    """A character that the terminal's encoding lacks is printed as `?`."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")


def say(*lines: str) -> None:
    """Prints, if it can be; that it cannot was said when a run first printed."""
    with contextlib.suppress(OSError):
        print(*lines, sep="\n", flush=True)


def finish(code: int = 0, text: str = "", is_training: bool = False) -> int:
    """Prints the last of a command's output; the exit code of one that ends in `code`.

    Output that cannot be written is a failure, but not of a run, which is in its files.
    """
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:  # the reader has seen enough
        discard()
    except OSError as error:
        discard()
        if not is_training:
            complain(error)
            return code or 1
    except (AttributeError, ValueError):  # there is none, or it was closed
        pass
    return code


def is_broken() -> bool:
    """Whether nothing can be printed; tries it with an empty line."""
    try:
        print(flush=True)
    except (OSError, AttributeError, ValueError):
        return True
    return False


def complain(error: OSError) -> None:
    with contextlib.suppress(OSError):
        reason = error.strerror or error
        print(f"jaxrl: cannot write to standard output: {reason}", file=sys.stderr)


def discard() -> None:
    """Discards further output, of which Python would complain at its exit."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
