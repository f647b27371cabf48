"""Seconds from the shell's prompt until the average return passes a mark.

    python benchmarks/time_to_result.py --peers sb3,sbx,cleanrl     # everything: hours
    python benchmarks/time_to_result.py --only CartPole             # jaxrl alone
    python benchmarks/time_to_result.py --report

The average is that of the last 20 training episodes; nothing is evaluated besides.
Python's start, imports and compilation count. JAX's compilation cache starts empty;
`jaxrl, again` is the same command once more, with what the first run compiled. Every
run is a separate process on one core with one thread, and the libraries take turns
seed by seed. `jaxrl, 2 ranks` is `--num_procs 2` on two cores.

The settings are those that each library documents as its best: the RL Zoo's for SB3
and SBX, CleanRL's own in SB3 (`cleanrl`). jaxrl has its defaults, but for Pendulum.
A finished run is written to results/time_to_result.csv and not repeated; one
that ends without passing the mark, or takes over an hour, has no seconds there; one
that fails is not written.
"""

import argparse
import collections
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import records
import speed

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "time_to_result.csv"
EPISODES = 20  # in the average
LONGEST = 3600  # seconds
AGAIN, TWO_RANKS = "jaxrl, again", "jaxrl, 2 ranks"
OURS = {"jaxrl": 1, AGAIN: 1, TWO_RANKS: 2}  # processes, one core each
PEERS = {
    "sb3": "SB3, RL Zoo's settings",
    "sbx": "SBX, RL Zoo's settings",
    "cleanrl": "SB3, CleanRL's settings",
}
KEY = ("task", "side", "seed")


class Task(NamedTuple):
    algo: str
    env: str
    mark: float
    steps: int  # after which a run ends, and over which rates fall, if not in `peers`
    ours: dict[str, Any]
    peers: dict[str, dict[str, Any]]
    small: bool = False  # so that compilation matters

    @property
    def name(self) -> str:
        return f"{self.algo.upper()} {self.env} {self.mark:g}"


class Passed(NamedTuple):
    seconds: float
    cpu_seconds: float
    steps: int


def ppo(env: str, mark: float, zoo: dict[str, Any]) -> Task:
    """PPO on MuJoCo for a million steps."""
    wide = {"log_std_init": -2, "ortho_init": False, "activation_fn": "relu"}
    wide |= {"net_arch": {"pi": [256, 256], "vf": [256, 256]}}
    zoo = {"normalize": True, "n_steps": 512, "policy_kwargs": wide} | zoo
    peers = {"sb3": zoo, "sbx": zoo, "cleanrl": CLEANRL}
    return Task("ppo", env, mark, 1_000_000, {}, peers)


def sac(env: str, mark: float) -> Task:
    zoo = {"learning_starts": 10_000}
    peers = {"sb3": zoo, "sbx": zoo, "cleanrl": CLEANRL_SAC}
    return Task("sac", env, mark, 1_000_000, {}, peers)


CLEANRL: dict[str, Any] = {
    "normalize": True,
    "learning_rate": 3e-4,
    "falling": ["learning_rate"],
    "n_steps": 2048,
    "batch_size": 64,
    "n_epochs": 10,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_range_vf": 0.2,
}
CLEANRL_SAC = {"learning_starts": 5000, "learning_rate": 1e-3, "policy_rate": 3e-4}
ZOO_CARTPOLE: dict[str, Any] = {
    "n_envs": 8,
    "n_steps": 32,
    "batch_size": 256,
    "gae_lambda": 0.8,
    "gamma": 0.98,
    "n_epochs": 20,
    "learning_rate": 1e-3,
    "clip_range": 0.2,
    "falling": ["learning_rate", "clip_range"],
}
CLEANRL_CARTPOLE: dict[str, Any] = {
    "steps": 500_000,
    "n_envs": 4,
    "n_steps": 128,
    "batch_size": 128,
    "n_epochs": 4,
    "learning_rate": 2.5e-4,
    "falling": ["learning_rate"],
    "clip_range_vf": 0.2,
    "ent_coef": 0.01,
}
ZOO_HOPPER: dict[str, Any] = {
    "batch_size": 32,
    "gamma": 0.999,
    "learning_rate": 9.80828e-05,
    "ent_coef": 0.00229519,
    "n_epochs": 5,
    "gae_lambda": 0.99,
    "max_grad_norm": 0.7,
    "vf_coef": 0.835671,
}
ZOO_HALFCHEETAH: dict[str, Any] = {
    "batch_size": 64,
    "gamma": 0.98,
    "learning_rate": 2.0633e-05,
    "ent_coef": 0.000401762,
    "clip_range": 0.1,
    "n_epochs": 20,
    "gae_lambda": 0.92,
    "max_grad_norm": 0.8,
    "vf_coef": 0.58096,
}
CARTPOLE = {"sb3": ZOO_CARTPOLE, "sbx": ZOO_CARTPOLE, "cleanrl": CLEANRL_CARTPOLE}
ZOO_PENDULUM = {"learning_rate": 1e-3}
PENDULUM = {"sb3": ZOO_PENDULUM, "sbx": ZOO_PENDULUM, "cleanrl": CLEANRL_SAC}
SHORT = {"start_steps": 100, "update_after": 100, "lr": 1e-3}

TASKS = [
    Task("ppo", "CartPole-v1", 475, 100_000, {}, CARTPOLE, small=True),
    Task("sac", "Pendulum-v1", -200, 20_000, SHORT, PENDULUM, small=True),
    ppo("Hopper-v4", 2000, ZOO_HOPPER),
    ppo("HalfCheetah-v4", 3000, ZOO_HALFCHEETAH),
    sac("HalfCheetah-v4", 3000),
    sac("Hopper-v4", 2000),
]


def ours(task: Task, side: str, seed: int, file: Path) -> list[Any]:
    """The command that a user types, with the noting environment in place of the id."""
    settings = {"steps": task.steps, "seed": seed, "num_procs": OURS[side]}
    settings |= {"num_test_episodes": 0, "exp_name": "timed", "out": file.parent}
    settings |= {"env": "timed_env:make"} | task.ours
    environment = json.dumps({"env_id": task.env, "file": str(file)})
    flags = [f"--{name}={value}" for name, value in settings.items()]
    flags.append(f"--env_kwargs={environment}")
    return [sys.executable, "-m", "jaxrl", "train", task.algo, *flags]


def theirs(task: Task, side: str, seed: int, file: Path, python: Path) -> list[Any]:
    description = json.dumps(task._asdict())
    return [python, HERE / "time_peer.py", side, description, str(seed), file]


class Episodes:
    """Reads what timed_env.py writes, a piece at a time."""

    def __init__(self, file: Path, mark: float, start: float) -> None:
        self.file, self.mark, self.start = file, mark, start
        self.last: collections.deque[float] = collections.deque(maxlen=EPISODES)
        self.position, self.steps = 0, 0

    def passed(self) -> Passed | None:
        """When the average was at least the mark; None if it was not in new lines."""
        for line in self._new_lines():
            clock, cpu, steps, total = map(float, line.split())
            self.steps += int(steps)
            self.last.append(total)
            if sum(self.last) >= self.mark * EPISODES and len(self.last) == EPISODES:
                return Passed(clock - self.start, cpu, self.steps)
        return None

    def _new_lines(self) -> list[str]:
        """Those that are whole."""
        if not self.file.exists():
            return []
        with self.file.open() as file:
            file.seek(self.position)
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self.position += len(whole)
        return whole.splitlines()


def train(
    task: Task, side: str, seed: int, python: Path, cores: list[int]
) -> Passed | None:
    """Train until the mark is passed; None if the run ends before or takes too long."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "episodes"
        command = (
            ours(task, side, seed, file)
            if side in OURS
            else theirs(task, side, seed, file, python)
        )
        env = os.environ | dict.fromkeys(speed.THREADS, "1")
        modules = f"{HERE}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
        env |= {"PYTHONPATH": modules, "XDG_CACHE_HOME": str(Path(name) / "cache")}
        pinned = cores[: OURS.get(side, 1)]
        result = watched(command, env, file, task.mark, pinned)
        if side != AGAIN:
            return result
        file.unlink()
        return watched([*command, "--overwrite"], env, file, task.mark, pinned)


def watched(
    command: list[Any], env: dict[str, str], file: Path, mark: float, cores: list[int]
) -> Passed | None:
    """Run the command on these cores until the mark is passed, then end it."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.monotonic()
        process = subprocess.Popen(
            command,
            env=env,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        os.sched_setaffinity(process.pid, cores)
        episodes, result = Episodes(file, mark, start), None
        try:
            while result is None and process.poll() is None:
                if time.monotonic() - start > LONGEST:
                    break
                time.sleep(1)
                result = episodes.passed()
            failed = process.poll()
        finally:  # also of an interrupted benchmark
            end(process)
        output.seek(0)
        if failed and result is None:
            raise RuntimeError(f"{command} failed: {output.read()[-1000:]}")
    return result or episodes.passed()


def end(process: subprocess.Popen) -> None:
    """End it and its ranks."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
            process.wait(20)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def finished() -> dict[tuple[str, ...], dict[str, str]]:
    return {tuple(row[name] for name in KEY): row for row in records.read(RESULTS)}


def chosen_ours(task: Task, two_ranks: bool) -> list[str]:
    return ["jaxrl", *[AGAIN] * task.small, *[TWO_RANKS] * two_ranks]


def run(tasks: list[Task], arguments: argparse.Namespace) -> bool:
    """Train what is not in the results yet; whether nothing failed."""
    good, python = True, Path()
    if arguments.peers:
        python = speed.install(arguments.peers_env, arguments.torch)
    for task in tasks:
        sides = [*chosen_ours(task, arguments.two_ranks), *arguments.peers]
        for seed, side in itertools.product(range(arguments.seeds), sides):
            key = (task.name, side, str(seed))
            if key in finished():
                continue
            try:
                result = train(task, side, seed, python, arguments.cores)
            except RuntimeError as failure:
                good = False
                print(f"{', '.join(key)}: {failure}", file=sys.stderr)
                continue
            row = dict(zip(KEY, key, strict=True)) | cells(result)
            versions = speed.versions("ours" if side in OURS else side, python)
            records.append(RESULTS, row | {"versions": versions})
            print(*row.values(), sep="; ", flush=True)
    return good


def cells(result: Passed | None) -> dict[str, str]:
    if result is None:
        return dict.fromkeys(Passed._fields, "")
    return {
        "seconds": f"{result.seconds:.1f}",
        "cpu_seconds": f"{result.cpu_seconds:.1f}",
        "steps": str(result.steps),
    }


def report(tasks: list[Task]) -> None:
    """Print a line per task: the median seconds of each side, and how many passed."""
    names = {**dict.fromkeys(OURS), **PEERS}
    titles = [PEERS.get(side, side) for side in names]
    print(f"| seconds to | {' | '.join(titles)} | jaxrl is faster by |")
    print("| --- " * (len(titles) + 2) + "|")
    rows = finished().values()
    for task in tasks:
        times = {
            side: [
                r["seconds"]
                for r in rows
                if (r["task"], r["side"]) == (task.name, side)
            ]
            for side in names
        }
        if any(times.values()):
            texts = [shown(seconds) for seconds in times.values()]
            print(f"| {task.name} | {' | '.join(texts)} | {advantage(times)} |")


def median(seconds: list[str]) -> float:
    """Over all seeds; infinite if half of them did not pass."""
    return statistics.median(float(x or "inf") for x in seconds)


def shown(seconds: list[str]) -> str:
    if not seconds:
        return ""
    if not any(seconds):
        return f"not in {len(seconds)} runs"
    reached = [x for x in seconds if x]
    missed = (
        f", {len(reached)} of {len(seconds)}" if len(reached) < len(seconds) else ""
    )
    middle = median(seconds)
    text = f"{middle:.1f}" if middle < 60 else f"{middle:.0f}"
    ends = [f"{f(float(x) for x in reached):.0f}" for f in (min, max)]
    return f"{text} ({' to '.join(ends)}{missed})"


def advantage(times: dict[str, list[str]]) -> str:
    """Over the fastest peer, in medians, on one core."""
    peers = [median(times[side]) for side in PEERS if times[side]]
    if not peers or not times["jaxrl"] or min(peers) == float("inf"):
        return ""
    return f"{min(peers) / median(times['jaxrl']):.2f} x"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", default="", help="tasks whose name contains this")
    add("--seeds", type=int, default=3, help="runs of each side [3]")
    add("--peers", default="", help="sides to compare with: sb3,sbx,cleanrl [none]")
    add("--two-ranks", action="store_true", help="also jaxrl with --num_procs 2")
    speed.add_environment_flags(parser)
    add("--core", type=int, default=speed.CORES[0], help="core of the runs [first]")
    add("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    tasks = [task for task in TASKS if arguments.only in task.name]
    if not tasks:
        names = "\n  ".join(task.name for task in TASKS)
        sys.exit(
            f"no task's name contains {arguments.only!r}; the tasks are\n  {names}"
        )
    arguments.peers = speed.chosen(arguments.peers, PEERS)
    others = [core for core in speed.CORES if core != arguments.core]
    arguments.cores = [arguments.core, *others]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    good = arguments.report or run(tasks, arguments)
    report(tasks)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
