"""Speed of training in JAX environments, in one compiled program, on one core.

    python benchmarks/fused.py --peers rejax    # all: 25 minutes on a busy machine
    python benchmarks/fused.py --only resets    # cases whose name contains this
    python benchmarks/fused.py --report

Each side of a case is a process on one core with one thread, which compiles and runs
once; then the sides take turns. A measurement is written to results/fused.csv when it
is done and then not repeated (`--fresh` repeats it). Steps are counted per CPU second,
which other work on the machine changes less, and per second of the clock; compiling is
measured apart.

Against rejax: the same environment of gymnax 0.0.9, networks, batches and number of
gradient steps; nothing is normalised and no policy evaluated. The differences:

- jaxrl keeps the true last observations, counts episodes, and computes its metrics;
  its PPO has the critic's value of every next observation.
- In the actor's loss rejax's TD3 has both critics. Its SAC updates the actor first.
- rejax samples batches without replacement, at a cost that grows with the buffer.
- 16 seeds are mapped by lax.map in jaxrl; rejax is measured so and with vmap, which
  it documents.

Resets: 64 environments of brax hopper, of which 0.5 % end in a step, with and without
starting their next episode. Epochs: one call for each epoch, whose row is fetched, with
and without, in one scan. Those of PPO take 15 ms, those of SAC about a second.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import records
import speed

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "fused.csv"
KEY = ("case", "side", "round")
COLUMNS = (*KEY, "steps", "cpu_seconds", "seconds", "compile_seconds")
ROUNDS = 5
PEERS = ("rejax",)
ENVS = (1, 8, 64, 512, 4096)
SEEDS = (1, 4, 16, 64)
# Environments, steps of each, passes, minibatches: rejax's defaults, and those of its
# configuration for CartPole.
LARGE, SMALL = (64, 64, 8, 16), (5, 100, 5, 5)


class Case(NamedTuple):
    name: str
    kind: str  # a function of fused_worker.py
    given: dict[str, Any]
    sides: tuple[str, ...] = ("jaxrl",)
    rounds: int = ROUNDS


def ppo(name: str, sizes: tuple[int, ...], steps: int, seeds: int = 1) -> Case:
    given = dict(
        zip(("num_envs", "steps", "passes", "minibatches"), sizes, strict=True)
    )
    given |= {"epochs": max(steps // (sizes[0] * sizes[1]), 1), "seeds": seeds}
    peers = ("rejax", "rejax vmap") if seeds > 1 else ("rejax",)
    return Case(name, "ppo", given, ("jaxrl", *peers))


def off_policy(algo: str, replay: int, steps: int) -> Case:
    given = {"algo": algo, "replay": replay, "steps": steps}
    name = f"{algo.upper()} Pendulum, replay of {replay:,}"
    return Case(name, "off_policy", given, ("jaxrl", "rejax"))


def scaling(num_envs: int, seeds: int, *sides: str) -> Case:
    name = f"scaling, {num_envs} environments, {seeds} seeds"
    steps = max(16_384, 64 * num_envs)
    case = ppo(name, (num_envs, 32, 4, 4), steps, seeds)
    return case._replace(sides=sides, rounds=3)


def epochs(algo: str, task: str, count: int) -> Case:
    given = {"algo": algo, "epochs": count}
    name = f"epochs, {algo.upper()} {task}"
    return Case(name, "epochs", given, ("epochs", "one scan"))


def compiling(env: str) -> Case:
    return Case(f"compile {env}", "compiling", {"env": env}, rounds=1)


CASES = [
    ppo("PPO CartPole, 64 x 64 steps", LARGE, 131_072),
    ppo("PPO CartPole, 64 x 64 steps, 16 seeds", LARGE, 16_384, seeds=16),
    ppo("PPO CartPole, 5 x 100 steps", SMALL, 100_000),
    ppo("PPO CartPole, 5 x 100 steps, 16 seeds", SMALL, 10_000, seeds=16),
    off_policy("sac", 1_000_000, 1024),
    off_policy("td3", 1_000_000, 1024),
    off_policy("sac", 10_000, 4096),
    off_policy("td3", 10_000, 4096),
    *(
        Case(f"resets, brax/hopper, {backend}", "resets", {"backend": backend}, sides)
        for backend in ("spring", "generalized")
        for sides in [("resets", "none")]
    ),
    epochs("ppo", "CartPole", 250),
    epochs("sac", "Pendulum", 8),
    *(
        compiling(env)
        for env in (
            *("phys2d/CartPole-v1", "gymnax/CartPole-v1", "brax/inverted_pendulum"),
            *("brax/hopper", "playground/CartpoleBalance"),
        )
    ),
    *(scaling(count, 1, "jaxrl") for count in ENVS),
    *(scaling(64, seeds, "jaxrl", "jaxrl vmap") for seeds in SEEDS[1:]),
]


class Worker:
    """A process that has compiled one side of a case."""

    def __init__(self, case: Case, side: str, python: Path) -> None:
        script = "fused_peer.py" if side.startswith("rejax") else "fused_worker.py"
        threads = dict.fromkeys(("NPROC", "OMP_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [python, HERE / script, case.kind, side, json.dumps(case.given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | threads,
        )
        self.started = self._read()

    def measure(self) -> dict[str, Any]:
        assert self.process.stdin
        print(file=self.process.stdin, flush=True)
        return self.started | self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.close()
            raise RuntimeError(f"{self.process.args} failed")
        return json.loads(line)

    def close(self) -> None:
        self.process.communicate()  # closes its input, at whose end it exits


def install(directory: Path) -> Path:
    """The Python of a virtual environment with rejax; creates it if missing."""
    python, done = directory / "bin" / "python", directory / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", directory], check=True)
        same = [f"{name}=={version(name)}" for name in ("jax", "jaxlib", "flax")]
        peers = ["rejax==0.1.3", "gymnax==0.0.9", "six"]
        pip = [python, "-m", "pip", "install", "--quiet", *peers, *same]
        subprocess.run(pip, check=True)
        done.touch()
    return python


def known() -> dict[tuple[str, ...], dict[str, str]]:
    """What was measured, by case, side and round."""
    return {tuple(row[name] for name in KEY): row for row in records.read(RESULTS)}


def forget(cases: list[Case]) -> None:
    """Remove the measurements of these cases from the results."""
    names = [case.name for case in cases]
    rows = [row for row in known().values() if row["case"] not in names]
    records.write(RESULTS, rows, [*COLUMNS, *records.ORIGIN])


def run(cases: list[Case], peers: list[str], directory: Path) -> None:
    """Measure what is not in the results yet."""
    peer_python = install(directory) if peers else Path()
    for case in cases:
        sides = [s for s in case.sides if peers or not s.startswith("rejax")]
        todo = [
            (str(turn), side)
            for turn, side in itertools.product(range(case.rounds), sides)
            if (case.name, side, str(turn)) not in known()
        ]
        workers = {
            side: Worker(
                case,
                side,
                peer_python if side.startswith("rejax") else Path(sys.executable),
            )
            for side in dict.fromkeys(side for _, side in todo)
        }
        for turn, side in todo:
            keys = dict(zip(KEY, (case.name, side, turn), strict=True))
            row = keys | workers[side].measure()
            records.append(RESULTS, row)
            print(*row.values(), sep="; ", flush=True)
        for worker in workers.values():
            worker.close()


def median(case: str, side: str, column: str) -> float | None:
    """Of the rounds; None if there are none."""
    rows = [row for key, row in known().items() if key[:2] == (case, side)]
    return statistics.median(float(row[column]) for row in rows) if rows else None


def rate(case: str, side: str, column: str = "cpu_seconds") -> float | None:
    """Median of steps per CPU second, or per second."""
    seconds, steps = median(case, side, column), median(case, side, "steps")
    return steps / seconds if seconds and steps else None


def report(cases: list[Case]) -> None:
    """Prints all medians."""
    rows = [
        [
            case.name,
            side,
            f"{rate(case.name, side):,.0f}",
            f"{rate(case.name, side, 'seconds'):,.0f}",
            f"{median(case.name, side, 'compile_seconds'):.1f}",
        ]
        for case in cases
        for side in case.sides
        if rate(case.name, side)
    ]
    titles = ("case", "side", "steps per CPU second", "per second", "compiling, s")
    print_table(titles, rows)


def print_table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    titles = list(titles)
    print(f"| {' | '.join(titles)} |")
    print("| --- " * len(titles) + "|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def against_rejax(cases: list[Case]) -> None:
    """Prints a line per case: speeds, and ours over the faster of rejax's."""
    rows = []
    for case in cases:
        if not (best := faster_peer(case)):
            continue
        ours, theirs, *clocks = (
            rate(case.name, side, column) or 0
            for column in ("cpu_seconds", "seconds")
            for side in ("jaxrl", best)
        )
        compiled = [
            f"{median(case.name, side, 'compile_seconds'):.1f}"
            for side in ("jaxrl", best)
        ]
        numbers = [f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f} x"]
        clock = f"{clocks[0] / clocks[1]:.2f} x"
        rows.append([case.name, *numbers, clock, " / ".join(compiled)])
    titles = ["one core", "jaxrl, steps per CPU second", "rejax", "ratio"]
    print_table([*titles, "by the clock", "compiling, s"], rows)


def faster_peer(case: Case) -> str | None:
    """The side of rejax with more steps per CPU second; None if one is missing."""
    peers = [side for side in case.sides if side.startswith("rejax")]
    rates = {side: rate(case.name, side) for side in ("jaxrl", *peers)}
    if not peers or None in rates.values():
        return None
    return max(peers, key=lambda side: rates[side] or 0)


def ratios(cases: list[Case]) -> dict[str, float]:
    """Steps per CPU second over the faster of rejax's, by case."""
    return {
        case.name: (rate(case.name, "jaxrl") or 0) / (rate(case.name, best) or 1)
        for case in cases
        if (best := faster_peer(case))
    }


def costs(cases: list[Case]) -> None:
    """Prints what resets and calls per epoch cost, and how long epochs compile."""
    rows = []
    for case in cases:
        if case.kind == "compiling":
            seconds = median(case.name, "jaxrl", "compile_seconds")
            cells = [f"{seconds:.1f} s"] if seconds else []
        elif case.kind in ("resets", "epochs"):
            slow, fast = (rate(case.name, side) for side in case.sides)
            cells = [f"{100 * (fast / slow - 1):.1f} % more"] if slow and fast else []
        else:
            continue
        rows += [[case.name, *cells]] if cells else []
    print_table(["", "costs, in CPU time"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    add = parser.add_argument
    add("--only", default="", help="cases whose name contains this")
    add("--peers", default="", help="libraries to compare with: rejax [none]")
    add(
        "--peers-env",
        type=Path,
        default=cache / "jaxrl" / "rejax",
        help="virtual environment of rejax; created if missing",
    )
    add("--fresh", action="store_true", help="discard these cases' earlier results")
    add("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only in case.name]
    if not cases:
        sys.exit("no such case; the cases are\n  " + "\n  ".join(c.name for c in CASES))
    peers = speed.chosen(arguments.peers, PEERS)
    if arguments.fresh:
        forget(cases)
    if not arguments.report:
        one_core = {min(os.sched_getaffinity(0))}
        os.sched_setaffinity(0, one_core)  # child processes inherit it
        run(cases, peers, arguments.peers_env)
    report(cases)


if __name__ == "__main__":
    main()
