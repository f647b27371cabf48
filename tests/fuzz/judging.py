"""Runs one case and lists what is wrong with its result."""

import re
import stat
from pathlib import Path
from typing import NamedTuple

from . import cases, processes
from .cases import Case
from .processes import Outcome
from .sandbox import GOOD, Sandbox, changes, fingerprint, has_secret

RIGHT = (0, 1, 2)
UNEXPECTED = re.compile(
    r"Traceback \(most recent|Exception ignored in|Fatal Python error|"
    r"should not have happened|Segmentation fault|core dumped"
)
LARGEST = 20_000_000  # bytes of an output that is searched


class Verdict(NamedTuple):
    """A case with all that is wrong with it."""

    case: Case
    faults: list[str]
    outcome: Outcome
    printed: str


def judge(sandbox: Sandbox, seed: int, number: int) -> Verdict:
    """Runs the case of a number."""
    case, rng = cases.make(seed, number)
    name = f"case-{number}"
    root = sandbox.make(name, case.victim)
    cases.prepare(case, rng, root)
    before = fingerprint(root)
    limits = sandbox.limits(name, case.stop_by, case.output)
    printed_file = sandbox.root / f"{name}.txt"
    printed_file.unlink(missing_ok=True)
    outcome = processes.run(case.words, root / "work", printed_file, limits)
    changed = changes(before, fingerprint(root))
    content = printed_file.read_bytes()[:LARGEST]
    printed = content.decode(errors="replace")
    faults = [
        *_ending(outcome, printed),
        *_changes(case, changed),
        *_secrets(root, content, changed),
        *_outputs(root, changed),
        *_hidden(case, outcome, root, printed),
    ]
    sandbox.remove(name)
    printed_file.unlink()
    return Verdict(case, faults, outcome, printed)


def _ending(outcome: Outcome, printed: str) -> list[str]:
    if outcome.over:
        return [outcome.over]
    stopped = outcome.stopped and outcome.code in (130, 143)
    faults = []
    if outcome.code not in RIGHT and not stopped:
        faults.append(f"exit code {outcome.code}")
    if found := UNEXPECTED.search(printed):
        faults.append(f"{found[0]}: {_last_line(printed)}")
    if outcome.code == 2 and not printed.strip():
        faults.append("refused without a message")
    if outcome.left:
        faults.append(f"processes left: {outcome.left}")
    return faults


def _last_line(printed: str) -> str:
    """The error of a traceback."""
    found = re.findall(r"^[\w.]*(?:Error|Exception|Exit)\b.*", printed, re.M)
    return (found or printed.strip().splitlines() or [""])[-1][:200]


def _changes(case: Case, changed: list[str]) -> list[str]:
    allowed = [f"work/{place}" for place in case.may_change]
    kept = [f"work/{place}" for place in case.must_stay]
    wrong = [
        path
        for path in changed
        if not _is_below(path, allowed) or _is_below(path, kept)
    ]
    return [f"changed {', '.join(wrong[:5])}"] if wrong else []


def _is_below(path: str, places: list[str]) -> bool:
    return any(
        path == place.rstrip("/") or path.startswith(place.rstrip("/") + "/")
        for place in places
    )


def _secrets(root: Path, printed: bytes, changed: list[str]) -> list[str]:
    faults = ["the secret is printed"] if has_secret(printed) else []
    for name in changed:
        path = root / name
        if _is_small(path) and has_secret(path.read_bytes()):
            faults.append(f"the secret is in {name}")
    return faults


def _is_small(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size < LARGEST


def _outputs(root: Path, changed: list[str]) -> list[str]:
    """A grid's runs print to files."""
    faults = []
    for name in changed:
        if re.search(r"_s\d+\.txt$", name) and _is_small(root / name):
            text = (root / name).read_text(errors="replace")
            if found := UNEXPECTED.search(text):
                faults.append(f"in {name}: {found[0]}: {_last_line(text)}")
    return faults


def _hidden(case: Case, outcome: Outcome, root: Path, printed: str) -> list[str]:
    """A damaged run must not hide its neighbour."""
    on_all = case.words[1:2] == ["runs"] and case.kind in ("run", "place", "grid")
    if not on_all or case.command not in ("ls", "plot", "report"):
        return []
    if case.output == "full" or "--suite" in case.words:
        return []  # a suite also needs runs that can be compared
    if outcome.code != 0:
        last = " ".join(printed.split())[-200:]
        return [f"a damaged run hides the others: {last}"]
    page = root / "work" / "new.html"
    text = {"ls": printed, "report": page.read_text() if page.exists() else ""}
    good = Path(GOOD).name
    missing = case.command in text and good not in text[case.command]
    return [f"{good} is missing in the output"] if missing else []
