"""Is nothing lost? Runs are killed (SIGKILL) over and over, resumed, and compared.

    python benchmarks/faults.py                       # 50 kills an algorithm
    python benchmarks/faults.py --algos sac --kills 5

A run is killed at a random moment, inside a save, before the manifest of a checkpoint
is in its place, while old checkpoints are removed, or while one is restored; and again
after it was resumed, until it ends. Its progress.csv without the clock's columns, and
the SHA-256 of its final state, must be those of a run that was left alone. Every run
that ended is written to the results; what stands there is not run again.
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

from jaxrl.logging.columns import CLOCKS
from jaxrl.runs import checkpoint

RESULTS = Path(__file__).parent / "results" / "faults.csv"
HEADER = "algo,run,kills,where,same_table,same_state\n"
ALGOS = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")
PLACES = ("random", "save", "manifest", "prune", "restore")

# A checkpoint every epoch, and a bomb in one of the functions that write or read it.
CHILD = """
import os, signal, sys
from jaxrl.runs import arrays, checkpoint_writer
checkpoint_writer.MAX_TIME_SHARE = float("inf")
place, passes = sys.argv[1], int(sys.argv[2])
names = {"save": (arrays, "save"), "restore": (arrays, "load")}
names["manifest"] = (checkpoint_writer, "write_atomically")
names["prune"] = (checkpoint_writer.CheckpointWriter, "_prune")
owner, name = names.get(place, (None, None))
def armed(function):
    def bomb(*arguments):
        global passes
        passes -= 1
        if passes < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return bomb
if name:
    setattr(owner, name, armed(getattr(owner, name)))
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
    """The table without its clocks, and the sum of the final state."""
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


def undisturbed(algo: str, out: str) -> tuple[tuple[list, str], float]:
    """What the run comes to, and the seconds it takes."""
    start = time.perf_counter()
    process = child("none", 0, ["train", algo, *settings(algo), "--out", out])
    error = process.communicate()[1]
    if process.returncode:
        raise RuntimeError(f"{algo} failed: {error[-500:]}")
    return outcome(Path(out) / "x" / "x_s0"), time.perf_counter() - start


def killed(algo: str, out: str, seconds: float, rng: random.Random) -> list[str]:
    """Runs it to its end through two to five kills; where they came."""
    path = Path(out) / "x" / "x_s0"
    start = ["train", algo, *settings(algo), "--out", out]
    places = []
    for left in itertools.count(rng.randint(2, 5), -1):
        begun = (path / "config.yaml").exists()
        resumed = ["resume", str(path)] if begun else [*start, "--overwrite"]
        place = rng.choice(PLACES) if left > 0 else "none"
        passes = rng.randint(0, 4) if place != "restore" else 0  # there is one a life
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
            raise RuntimeError(f"{algo} ended by itself: {error[-500:]}")
        places.append(place)
    raise AssertionError


def finished() -> list[dict[str, str]]:
    if not RESULTS.exists():
        return []
    return list(csv.DictReader(RESULTS.read_text().splitlines()))


def keep(line: str) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    if not RESULTS.exists():
        RESULTS.write_text(HEADER)
    with RESULTS.open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)


def campaign(algo: str, kills: int) -> None:
    made = [row for row in finished() if row["algo"] == algo]
    total = sum(int(row["kills"]) for row in made)
    if total >= kills:
        return
    with tempfile.TemporaryDirectory() as out:
        expected, seconds = undisturbed(algo, out)
    for number in itertools.count(len(made)):
        if total >= kills:
            return
        rng = random.Random(f"{algo} {number}")
        with tempfile.TemporaryDirectory() as out:
            places = killed(algo, out, seconds, rng)
            table, state = outcome(Path(out) / "x" / "x_s0")
        same = f"{table == expected[0]},{state == expected[1]}"
        keep(f"{algo},{number},{len(places)},{' '.join(places)},{same}")
        total += len(places)


def report(algos: list[str]) -> bool:
    """Prints the table; whether every run ended as if undisturbed."""
    good = True
    print("| algorithm | kills | of these " + " | ".join(PLACES[1:]), end=" ")
    print("| runs | as if undisturbed |")
    print("| --- " * (len(PLACES) + 3) + "|")
    for algo in algos:
        rows = [row for row in finished() if row["algo"] == algo]
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
    parser.add_argument("--kills", type=int, default=50, help="an algorithm [50]")
    parser.add_argument("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    for algo in () if arguments.report else arguments.algos:
        campaign(algo, arguments.kills)
    return 0 if report(arguments.algos) else 1


if __name__ == "__main__":
    raise SystemExit(main())
