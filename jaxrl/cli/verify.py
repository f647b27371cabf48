"""`jaxrl verify DIR [--epochs K]`: 0 identical, 1 different, 2 cannot be verified."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jaxrl.cli import options, running
from jaxrl.cli.stdout import say
from jaxrl.errors import UserError
from jaxrl.logging.console import printable
from jaxrl.processes import mpirun, ranks
from jaxrl.runs import comparison, reading, status
from jaxrl.runs.comparison import Compared
from jaxrl.runs.reading import Record


def main(arguments: list[str]) -> int:
    given = options.parser("verify").parse(arguments)
    record = reading.record(given.dir)
    if record.is_own_loop:
        raise UserError(
            f"{record.path} was logged by a program that jaxrl cannot repeat"
        )
    threads = running.fix_threads(record)
    epochs = _epochs(record, given.epochs)
    if given.into:  # a rank that the command started
        _repeat(record, Path(given.into), epochs)
        return 0
    if ranks.size() > 1:
        raise UserError("jaxrl verify starts its processes itself; leave out mpirun")
    steps = int(record.progress["TotalEnvInteracts"][epochs - 1])
    say(f"training the first {_count(epochs, 'epoch')} again ({steps} steps)")
    running.announce_code(record)
    module, colon, _ = record.config["env"].partition(":")
    if colon and module != "python":  # which is only in the program that gave it
        say(f"  in {printable(record.config['env'])}, whose module is imported")
    with tempfile.TemporaryDirectory(prefix="jaxrl-verify-") as place:
        repeated = comparison.temporary_run(Path(place), record)
        if size := mpirun.ranks_to_start(record.num_procs):
            words = ["verify", str(record.path), "--epochs", str(epochs)]
            words += ["--into", place]
            if code := running.launched(words, repeated, size, threads):
                return code if code > 128 else 2
        else:
            _repeat(record, Path(place), epochs)
        return _report(record, reading.record(repeated), epochs)


def _epochs(record: Record, asked: int | None) -> int:
    possible = comparison.repeatable_epochs(record)
    if not possible:
        raise UserError(f"{record.path} has no finished epoch to verify")
    if asked is not None and asked > possible:
        longer = " before it was made longer" if "extended" in record.config else ""
        raise UserError(
            f"{record.path} has {_count(possible, 'epoch')}{longer}; --epochs is "
            f"{asked}"
        )
    return min(asked or comparison.default_epochs(record), possible)


def _repeat(record: Record, place: Path, epochs: int) -> None:
    """Trains in a temporary directory; `out` in config.yaml is ignored."""
    running.cache_compilations()
    from jaxrl.runs import code, directory
    from jaxrl.training import repeat

    text = directory.config_text(record.path)
    code.check(record.path, [text], changed=False)
    run = directory.read(text, out=str(place))
    if part := comparison.end_of_first_part(record):
        run = directory.with_total_steps(run, part[1])
    with _as_unverifiable():
        repeat.repeat(run, comparison.temporary_run(place, record), epochs)


@contextlib.contextmanager
def _as_unverifiable() -> Iterator[None]:
    """Whatever ends the repetition, the run is neither identical nor different."""
    try:
        yield
    except (OSError, FloatingPointError) as error:
        reason = status.describe(error)
        raise UserError(f"the run cannot be repeated: {reason}") from error


def _report(record: Record, repeated: Record, epochs: int) -> int:
    found = comparison.compare(record, repeated, epochs)
    found = _with_state(record, repeated, found)
    if found.own:
        names = printable(", ".join(found.own))
        say(f"  not compared, in one of the two alone: {names}")
    if not found.difference:
        parts = [_count(found.epochs, "epoch"), _count(found.columns, "column")]
        parts += [_count(found.models, "policy", "policies")] if found.models else []
        say(f"identical: {', '.join(parts)}")
        return 0
    where, before, now = found.difference
    say(f"different: {where} is {printable(before)} in {record.path} and {now} here")
    there, here = record.config.get("machine"), repeated.config["machine"]
    lines = comparison.machine_differences(there, here)
    same = "versions, threads and machine are the same; did the environment change?"
    for line in lines or [same]:
        say(f"  {printable(line)}")
    return 1


def _with_state(record: Record, repeated: Record, found: Compared) -> Compared:
    """With the whole state, where both have saved it at the same step."""
    if found.difference:
        return found
    from jaxrl.runs import checkpoint

    (there, _), (here, _) = map(checkpoint.newest, (record.path, repeated.path))
    if not there or not here:
        return found
    if there.content["env_steps"] != here.content["env_steps"]:
        return found
    try:
        hashes = [comparison.digest(saved.content["state"]) for saved in (there, here)]
    except (LookupError, TypeError, AttributeError):  # not as a run saves it
        raise UserError(f"{record.path}: its checkpoint is damaged: no state") from None
    say(f"  SHA-256 of the state at step {here.content['env_steps']}: {hashes[1]}")
    if hashes[0] == hashes[1]:
        return found
    where = f"SHA-256 of the state at step {here.content['env_steps']}"
    return found._replace(difference=comparison.Difference(where, *hashes))


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"
