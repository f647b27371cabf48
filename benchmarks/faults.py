"""Kill runs (SIGKILL) again and again, resume them, and compare their results.

    python benchmarks/faults.py                      # 50 kills per algorithm
    python benchmarks/faults.py --algos sac --kills 5
    python benchmarks/faults.py --jax                # in JAX environments, 20 each

A run is killed at a random time, inside a save, before a checkpoint's manifest is
written, while old checkpoints are removed, or while one is restored; then it is resumed
and killed again, until it finishes. Its progress.csv without the clock columns and the
SHA-256 of its final state (in a JAX environment of all that its program carries) must
equal those of an uninterrupted run. Every finished run is written to
results/faults.csv and not repeated.
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
from typing import NamedTuple

import records

from jaxrl.logging.columns import CLOCKS
from jaxrl.runs import checkpoint

RESULTS = Path(__file__).parent / "results" / "faults.csv"
COLUMNS = ("algo", "run", "kills", "where", "same_table", "same_state")
ON_POLICY = ("vpg", "trpo", "ppo")
ALGOS = (*ON_POLICY, "ddpg", "td3", "sac")
PLACES = ("random", "save", "manifest", "prune", "restore")


class Case(NamedTuple):
    """What is killed, and how often in all."""

    algo: str
    env: str = "Pendulum-v1"
    kills: int = 50

    @property
    def in_jax(self) -> bool:
        return "/" in self.env

    @property
    def name(self) -> str:
        """In the results."""
        return f"{self.algo} {self.env}" if self.in_jax else self.algo


CASES = [
    *map(Case, ALGOS),
    Case("ppo", "phys2d/CartPole-v1", 20),
    Case("sac", "phys2d/Pendulum-v0", 20),
    Case("td3", "phys2d/Pendulum-v0", 20),
]

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


def settings(case: Case) -> list[str]:
    common = ["--env", case.env, "--exp_name", "x", "--hidden", "16"]
    on_policy, in_jax = case.algo in ON_POLICY, case.in_jax
    if in_jax:  # many epochs, as each takes milliseconds
        common += ["--preset", "default", "--max_ep_len", "150"]
        common += ["--steps", "102400" if on_policy else "20000"]
    else:
        common += ["--steps", "8192" if on_policy else "6000"]
    if on_policy:
        return [
            *common,
            "--steps_per_epoch",
            "512",
            "--num_envs",
            "4" if in_jax else "1",
        ]
    common += ["--steps_per_epoch", "500", "--batch_size", "16"]
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
    for name, array in sorted(content.get("carry", {}).items()):
        total.update(name.encode() + array.tobytes())
    if "carry" not in content:
        total.update(json.dumps([content["act_rng"], content["batch_rng"]]).encode())
    return table, total.hexdigest()


def uninterrupted(case: Case, out: str) -> tuple[tuple[list, str], float]:
    """The outcome of the run, and the seconds it takes."""
    start = time.perf_counter()
    process = child("none", 0, ["train", case.algo, *settings(case), "--out", out])
    error = process.communicate()[1]
    if process.returncode:
        raise RuntimeError(f"{case.name} failed: {error[-500:]}")
    return outcome(Path(out) / "x" / "x_s0"), time.perf_counter() - start


def killed(case: Case, out: str, seconds: float, rng: random.Random) -> list[str]:
    """Run it to its end with two to five kills; returns where they happened."""
    path = Path(out) / "x" / "x_s0"
    start = ["train", case.algo, *settings(case), "--out", out]
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
            raise RuntimeError(
                f"{case.name} failed without being killed: {error[-500:]}"
            )
        places.append(place)
    raise AssertionError


def finished(case: Case) -> list[dict[str, str]]:
    """The rows of this case in the results."""
    return [row for row in records.read(RESULTS) if row["algo"] == case.name]


def campaign(case: Case, kills: int) -> None:
    """Run the case until it was killed so often in all."""
    known = finished(case)
    total = sum(int(row["kills"]) for row in known)
    if total >= kills:
        return
    with tempfile.TemporaryDirectory() as out:
        expected, seconds = uninterrupted(case, out)
    for number in itertools.count(len(known)):
        if total >= kills:
            return
        rng = random.Random(f"{case.name} {number}")
        with tempfile.TemporaryDirectory() as out:
            places = killed(case, out, seconds, rng)
            table, state = outcome(Path(out) / "x" / "x_s0")
        same = (table == expected[0], state == expected[1])
        row = (case.name, number, len(places), " ".join(places), *same)
        records.append(RESULTS, dict(zip(COLUMNS, row, strict=True)))
        print(*row, sep=",", flush=True)
        total += len(places)


def report(cases: list[Case]) -> bool:
    """Print the table; whether every run ended like the uninterrupted one."""
    good = True
    print("| algorithm | kills | of these " + " | ".join(PLACES[1:]), end=" ")
    print("| runs | identical to uninterrupted |")
    print("| --- " * (len(PLACES) + 3) + "|")
    for case in cases:
        rows = finished(case)
        where = " ".join(row["where"] for row in rows).split()
        same = [row for row in rows if row["same_table"] == row["same_state"] == "True"]
        good &= len(same) == len(rows)
        counts = [where.count(place) for place in PLACES[1:]]
        cells = [case.name, len(where), *counts, len(rows), len(same)]
        print("| " + " | ".join(map(str, cells)) + " |")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--algos", nargs="+", choices=ALGOS, default=ALGOS)
    in_jax = "only runs in JAX environments"
    parser.add_argument("--jax", action="store_true", help=in_jax)
    parser.add_argument("--kills", type=int, help="kills per case [50, in JAX 20]")
    parser.add_argument("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    cases = [case for case in CASES if case.algo in arguments.algos]
    cases = [case for case in cases if case.in_jax or not arguments.jax]
    for case in () if arguments.report else cases:
        campaign(case, case.kills if arguments.kills is None else arguments.kills)
    return 0 if report(cases) else 1


if __name__ == "__main__":
    raise SystemExit(main())
