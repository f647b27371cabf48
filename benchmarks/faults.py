"""Kill runs (SIGKILL) again and again, resume them, and compare their results.

    python benchmarks/faults.py                       # 50 kills per algorithm
    python benchmarks/faults.py --algos sac --kills 5

A run is killed at a random time, inside a save, before a checkpoint's manifest is
written, while old checkpoints are removed, or while one is restored; then it is resumed
and killed again, until it finishes. Its progress.csv without the clock columns and the
SHA-256 of its final state must equal those of an uninterrupted run. Every finished run
is written to results/faults.csv and not repeated.
"""

import argparse
import csv
import hashlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import records

from jaxrl.logging.columns import CLOCKS
from jaxrl.runs import checkpoint

RESULTS = Path(__file__).parent / "results" / "faults.csv"
COLUMNS = ("algo", "run", "kills", "where", "same_table", "same_state")
ALGOS = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")
PLACES = ("random", "save", "manifest", "prune", "restore")

# Saves a checkpoint every epoch; kills itself in a function that writes or reads one.
CHILD = """
import os, signal, sys
from jaxrl.runs import arrays, checkpoint_writer
checkpoint_writer.MAX_TIME_SHARE = float("inf")
place, passes = sys.argv[1], int(sys.argv[2])
names = {"save": (arrays, "save"), "restore": (arrays, "load")}
names["manifest"] = (checkpoint_writer, "write_atomically")
names["prune"] = (checkpoint_writer.CheckpointWriter, "_prune")
owner, name = names.get(place, (None, None))
def killing(function):
    def counted(*arguments):
        global passes
        passes -= 1
        if passes < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return counted
if name:
    setattr(owner, name, killing(getattr(owner, name)))
from jaxrl.cli.main import main
raise SystemExit(main(sys.argv[3:]))
"""


def settings(algo: str) -> list[str]:
    common = ["--env", "Pendulum-v1", "--exp_name", "x", "--hidden", "16"]
    if algo in ("vpg", "trpo", "ppo"):
        return [*common, "--steps_per_epoch", "512", "--steps", "8192"]
    common += ["--steps_per_epoch", "500", "--steps", "6000", "--batch_size", "16"]
    common += ["--start_steps", "300", "--update_after", "300", "--num_envs", "2"]
    return [*common, "--num_test_episodes", "1", "--replay_size", "2000"]


def child(place: str, passes: int, words: list[str]) -> subprocess.Popen:
    command = [sys.executable, "-c", CHILD, place, str(passes), *words]
    threads = dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return subprocess.Popen(
        command,
        env=os.environ | threads,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(path: Path) -> tuple[list, str]:
    """progress.csv without the clock columns, and the SHA-256 of the final state."""
    rows = csv.DictReader((path / "progress.csv").read_text().splitlines())
    table = [[row[name] for name in row if name not in CLOCKS] for row in rows]
    saved, complaints = checkpoint.newest(path)
    assert saved is not None, complaints
    content = dict(saved.content)
    total = hashlib.sha256()
    for name, array in sorted(content.pop("state").items()):
        total.update(name.encode() + array.tobytes())
    total.update(json.dumps([content["act_rng"], content["batch_rng"]]).encode())
    return table, total.hexdigest()


def uninterrupted(algo: str, out: str) -> tuple[tuple[list, str], float]:
    """The outcome of the run, and the seconds it takes."""
    start = time.perf_counter()
    process = child("none", 0, ["train", algo, *settings(algo), "--out", out])
    error = process.communicate()[1]
    if process.returncode:
        raise RuntimeError(f"{algo} failed: {error[-500:]}")
    return outcome(Path(out) / "x" / "x_s0"), time.perf_counter() - start


def killed(algo: str, out: str, seconds: float, rng: random.Random) -> list[str]:
    """Run it to its end with two to five kills; returns where they happened."""
    path = Path(out) / "x" / "x_s0"
    start = ["train", algo, *settings(algo), "--out", out]
    places = []
    for left in itertools.count(rng.randint(2, 5), -1):
        begun = (path / "config.yaml").exists()
        resumed = ["resume", str(path)] if begun else [*start, "--overwrite"]
        place = rng.choice(PLACES) if left > 0 else "none"
        # A process restores only once.
        passes = rng.randint(0, 4) if place != "restore" else 0
        process = child(place, passes, resumed)
        try:
            limit = rng.uniform(0.5, seconds) if place == "random" else None
            error = process.communicate(timeout=limit)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            error = process.communicate()[1]
        if process.returncode == 0:
            return places
        if process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"{algo} failed without being killed: {error[-500:]}")
        places.append(place)
    raise AssertionError


def finished(algo: str) -> list[dict[str, str]]:
    """The rows of this algorithm in the results."""
    return [row for row in records.read(RESULTS) if row["algo"] == algo]


def campaign(algo: str, kills: int) -> None:
    """Run the algorithm until it was killed so often in all."""
    known = finished(algo)
    total = sum(int(row["kills"]) for row in known)
    if total >= kills:
        return
    with tempfile.TemporaryDirectory() as out:
        expected, seconds = uninterrupted(algo, out)
    for number in itertools.count(len(known)):
        if total >= kills:
            return
        rng = random.Random(f"{algo} {number}")
        with tempfile.TemporaryDirectory() as out:
            places = killed(algo, out, seconds, rng)
            table, state = outcome(Path(out) / "x" / "x_s0")
        same = (table == expected[0], state == expected[1])
        row = (algo, number, len(places), " ".join(places), *same)
        records.append(RESULTS, dict(zip(COLUMNS, row, strict=True)))
        print(*row, sep=",", flush=True)
        total += len(places)


def report(algos: list[str]) -> bool:
    """Print the table; whether every run ended like the uninterrupted one."""
    good = True
    print("| algorithm | kills | of these " + " | ".join(PLACES[1:]), end=" ")
    print("| runs | identical to uninterrupted |")
    print("| --- " * (len(PLACES) + 3) + "|")
    for algo in algos:
        rows = finished(algo)
        where = " ".join(row["where"] for row in rows).split()
        same = [row for row in rows if row["same_table"] == row["same_state"] == "True"]
        good &= len(same) == len(rows)
        counts = [where.count(place) for place in PLACES[1:]]
        cells = [algo, len(where), *counts, len(rows), len(same)]
        print("| " + " | ".join(map(str, cells)) + " |")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algos", nargs="+", choices=ALGOS, default=list(ALGOS))
    parser.add_argument(
        "--kills", type=int, default=50, help="kills per algorithm [50]"
    )
    parser.add_argument("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    for algo in () if arguments.report else arguments.algos:
        campaign(algo, arguments.kills)
    return 0 if report(arguments.algos) else 1


if __name__ == "__main__":
    raise SystemExit(main())
