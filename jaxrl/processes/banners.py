"""Open MPI's reports on standard error, framed by dashed lines.

They are the only place where mpirun says which rank ended and how. They are written
for people and may change: a report that is not understood is printed as it is.
"""

import re
from collections.abc import Iterable, Iterator

from jaxrl.processes.records import RankRecord
from jaxrl.processes.signals import signal_name

KILLED = re.compile(r"process rank (\d+) .* on node (\S+) exited on\s+signal (\d+)")
EXITED = re.compile(r"process rank (\d+) .* on node (\S+) exiting\s+improperly")
FAILED = re.compile(r"\[prterun-(.+)-\d+@\d+,(\d+)\]\s+Exit code:\s+(\d+)")


def separate(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """The lines, and each banner as one text; True marks banners about an end."""
    banner: list[str] | None = None
    # Some of Open MPI's texts end in a NUL.
    for line in filter(None, (line.replace("\0", "") for line in lines)):
        if not re.fullmatch(r"-{60,}\s*", line):
            if banner is None:
                yield line, False
            else:
                banner.append(line)
        elif banner is None:
            banner = []
        else:
            text = "".join(banner)
            yield text, "prterun" in text or "MPI_ABORT" in text
            banner = None
    if banner:
        yield "".join(banner), False


def parse(banner: str) -> RankRecord | None:
    """How a rank ended, if this banner says so."""
    if found := KILLED.search(banner):
        rank, host, number = found.groups()
        name = signal_name(int(number))
        return RankRecord(rank=int(rank), host=host, state="killed", signal=name)
    if found := EXITED.search(banner):
        return RankRecord(rank=int(found[1]), host=found[2], state="exited")
    if found := FAILED.search(banner):
        host, rank, code = found.groups()
        return RankRecord(
            rank=int(rank), host=host, state="failed", exit_code=int(code)
        )
    return None
