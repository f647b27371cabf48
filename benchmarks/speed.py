"""Training speed compared with Stable-Baselines3 and SBX, in turns on one machine.

    python benchmarks/speed.py --peers sb3,sbx            # everything: hours
    python benchmarks/speed.py --only SAC --cores 1       # jaxrl alone, on one core
    python benchmarks/speed.py --report

Every measurement is a separate process, pinned to its cores, with one thread per core.
The machine's matrix product is timed before and after it; the libraries take turns. A
measurement is written to results/speed.csv when it is done and then not repeated; a
failed one is not written. Steps per second count from the end of the first epoch
(on-policy) or from step 1000 (off-policy), when everything is compiled, to the end.

All use the same environment in the same version, networks, batches and number of
gradient steps, and none evaluates the policy. The differences:

- Off-policy, the peers update after every step and jaxrl 50 times after 50 steps; with
  Spinning Up's settings all do the latter.
- PPO has one loss and optimiser in SB3, two in jaxrl and SBX.
- TRPO's line search stops at the first good step in sb3-contrib; jaxrl's tries all.
- Only jaxrl writes files.

The ceiling of an off-policy figure is the speed at which its update would take no
longer than its matrix products do at the machine's rate. The first row is timed from
the start of the process; for the peers, until the end of the first update. Peak memory
includes a full replay buffer of a million transitions.
"""

import argparse
import csv
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import records

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "speed.csv"
KEY = ("case", "side", "cores", "round")
COLUMNS = (*KEY, "value", "unit", "sgemm_gflops")
UNITS = {"speed": "steps/s", "cold": "s", "warm": "s", "memory": "MB"}
THREADS = ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CORES = sorted(os.sched_getaffinity(0))
PEERS = ("sb3", "sbx")

SGEMM = """
import statistics, update
print(statistics.median(update.sgemm_rate() for _ in range(10)))
"""
MEMORY = """
import json, resource, sys
from jaxrl.runs import directory, spec
from jaxrl.training import session, setup
from jaxrl.training.user_callbacks import Callbacks
run = spec.make(*sys.argv[1:3], json.loads(sys.argv[3]))
path = directory.run_path(run)
path.mkdir(parents=True)
parts = setup.prepare(run)
fill = lambda state, step: parts.buffer.rows[step:].fill(0)
start = session.Start(parts, path, callbacks=Callbacks(on_epoch=fill))
session.run(start, screen=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
"""


class Case(NamedTuple):
    name: str
    algo: str
    env: str
    settings: dict[str, Any]  # of jaxrl
    arguments: dict[str, Any]  # of the peers
    steps: int
    warmup: int = 0  # steps before the clock starts
    mflop: float = 0  # matrix products of one update, as counted by update.py
    measure: str = "speed"
    peers: tuple[str, ...] = PEERS
    cores: tuple[int, ...] = (1, 2)


def off_policy(name: str, algo: str, mflop: float, **arguments: Any) -> Case:
    """A case on Hopper, with updates from step 500 on."""
    settings = {"steps_per_epoch": 1000, "start_steps": 500, "update_after": 500}
    settings |= {"num_test_episodes": 0, "batch_size": arguments["batch_size"]}
    arguments |= {"learning_starts": 500, "policy_kwargs": {"net_arch": [256, 256]}}
    return Case(name, algo, "Hopper-v4", settings, arguments, 3000, 1000, mflop)


def on_policy(algo: str, name: str, steps: int, ours: dict, theirs: dict) -> Case:
    """A case on HalfCheetah: 21 epochs of `steps`, nothing normalised."""
    ours = {"normalize_obs": False, "normalize_returns": False} | ours
    ours |= {"steps_per_epoch": steps}
    theirs = {"n_steps": steps, "policy_kwargs": {"net_arch": [64, 64]}} | theirs
    return Case(name, algo, "HalfCheetah-v4", ours, theirs, 21 * steps, steps)


def ppo(name: str, steps: int, passes: int, batch: int, num_envs: int = 1) -> Case:
    ours = {"train_pi_iters": passes, "train_v_iters": passes, "lr_decay": 0}
    ours |= {"minibatches": steps // batch, "refresh_advantages": False}
    ours |= {"target_kl": "inf", "num_envs": num_envs}
    theirs = {"n_epochs": passes, "batch_size": batch, "n_steps": steps // num_envs}
    return on_policy("ppo", name, steps, ours, theirs)


EACH = {"train_freq": 1, "gradient_steps": 1, "batch_size": 256}
FIFTY = {"train_freq": 50, "gradient_steps": 50, "batch_size": 100, "ent_coef": 0.2}
SPINUP = off_policy("SAC, Spinning Up's settings", "sac", 564 * 100 / 256, **FIFTY)
CRITIC = {"cg_max_steps": 10, "n_critic_updates": 80, "batch_size": 4000}
TRPO = ("TRPO, 4000 steps", 4000, {"cg_iters": 10, "train_v_iters": 80}, CRITIC)
CARTPOLE: tuple[Any, ...] = ("ppo", "CartPole-v1", {}, {}, 2048)
HOPPER: tuple[Any, ...] = ("sac", "Hopper-v4", {"steps_per_epoch": 1500})
HOPPER += ({"learning_starts": 1000}, 3000)

CASES = [
    off_policy("SAC, batch 256", "sac", 564, **EACH),
    off_policy("TD3, batch 256", "td3", 404, **EACH),
    off_policy("DDPG, batch 256", "ddpg", 351, **EACH),
    SPINUP._replace(settings=SPINUP.settings | {"preset": "spinup"}, cores=(1,)),
    ppo("PPO, 4000 steps, 80 full-batch passes", 4000, 80, 4000),
    ppo("PPO, 2048 steps, 10 passes of 64", 2048, 10, 64),
    ppo("PPO, 8 x 256 steps, 10 passes of 256", 2048, 10, 256, num_envs=8),
    on_policy("trpo", *TRPO)._replace(peers=("sb3",)),
    Case("PPO CartPole, first row, cold cache", *CARTPOLE, measure="cold"),
    Case("PPO CartPole, first row, warm cache", *CARTPOLE, measure="warm", peers=()),
    Case("SAC Hopper, peak memory", *HOPPER, measure="memory"),
]


def output(command: list[Any], env: dict[str, str], cwd: Path | None = None) -> str:
    """What the command prints; raises unless its exit code is 0."""
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr[-1000:]}")
    return done.stdout


def seconds_to_line(
    count: int, path: Path, command: list[Any], env: dict[str, str]
) -> float:
    """Seconds until the file has `count` lines; the command is then killed."""

    def ready() -> bool:
        return path.exists() and path.read_text().count("\n") >= count

    with tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, env=env, stdout=errors, stderr=errors)
        while not ready() and process.poll() is None:
            time.sleep(0.01)
        elapsed = time.perf_counter() - start
        code = process.poll()  # None while it still runs
        process.kill()
        process.wait()
        errors.seek(0)
        if code or not ready():
            raise RuntimeError(f"{command} failed: {errors.read()[-1000:]}")
    return elapsed


def ours(case: Case, env: dict[str, str], out: Path) -> float:
    """Measure jaxrl."""
    if case.measure == "memory":
        settings = json.dumps({"steps": case.steps, "out": str(out)})
        script = [sys.executable, "-c", MEMORY, case.algo, case.env, settings]
        return float(output(script, env))
    settings = case.settings | {"env": case.env, "exp_name": "speed", "out": out}
    train = [sys.executable, "-m", "jaxrl", "train", case.algo]
    train += [f"--{name}={value}" for name, value in settings.items()]
    progress = out / "speed" / "speed_s0" / "progress.csv"
    if case.measure == "speed":
        output([*train, f"--steps={case.steps}"], env)
        return rate(progress, case.warmup)
    env = env | {"XDG_CACHE_HOME": str(out / "cache")}
    elapsed = seconds_to_line(2, progress, train, env)
    if case.measure == "cold":
        return elapsed
    progress.unlink()
    return seconds_to_line(2, progress, [*train, "--overwrite"], env)


def rate(progress: Path, warmup: int) -> float:
    """Steps per second from the row of step `warmup` to the last."""
    rows = csv.DictReader(progress.read_text().splitlines())
    clock = {float(row["TotalEnvInteracts"]): float(row["Time"]) for row in rows}
    last = max(clock)
    return (last - warmup) / (clock[last] - clock[warmup])


def theirs(
    case: Case, side: str, env: dict[str, str], out: Path, python: Path
) -> float:
    """Measure a peer: the number that peers.py writes, or the seconds until it does."""
    number, description = out / "number", json.dumps(case._asdict())
    command = [python, HERE / "peers.py", side, description, number]
    if case.measure == "cold":
        return seconds_to_line(1, number, command, env)
    output(command, env)
    return float(number.read_text())


def sgemm(env: dict[str, str], cores: int) -> float:
    command = [sys.executable, "-c", SGEMM, "--cores", str(cores)]
    return float(output(command, env, cwd=HERE))


def measure(case: Case, side: str, cores: int, python: Path) -> tuple[float, float]:
    """The value, and GFLOP/s of the matrix product (mean of before and after)."""
    os.sched_setaffinity(0, CORES[:cores])  # child processes inherit it
    env = os.environ | dict.fromkeys(THREADS, str(cores))
    before = sgemm(env, cores)
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        value = (
            ours(case, env, out)
            if side == "ours"
            else theirs(case, side, env, out, python)
        )
    return value, (before + sgemm(env, cores)) / 2


def install(directory: Path, torch: str) -> Path:
    """The Python of a virtual environment with the peers; creates it if missing."""
    python, done = directory / "bin" / "python", directory / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", directory], check=True)
        same = [f"{name}=={version(name)}" for name in ("gymnasium", "mujoco")]
        peers = ["stable-baselines3", "sb3-contrib", "sbx-rl", "gymnasium[mujoco]"]
        pip = [python, "-m", "pip", "install", "--quiet", torch, *peers, *same]
        subprocess.run(pip, check=True)
        done.touch()
    return python


def versions(side: str, python: Path) -> str:
    """Of the packages that were measured; the peers have their own environment."""
    if side == "ours":
        return records.versions()
    script = "import records; print(records.versions())"
    return output([python, "-c", script], dict(os.environ), cwd=HERE).strip()


def known() -> dict[tuple[str, ...], dict[str, str]]:
    """What was measured, by case, side, cores and round."""
    return {tuple(row[name] for name in KEY): row for row in records.read(RESULTS)}


def remove_old(cases: list[Case]) -> None:
    """Remove the measurements of these cases from the results."""
    names = [case.name for case in cases]
    rows = [row for row in known().values() if row["case"] not in names]
    records.write(RESULTS, rows, [*COLUMNS, *records.ORIGIN])


def run(cases: list[Case], arguments: argparse.Namespace) -> None:
    """Measure what is not in the results yet."""
    peers = arguments.peers
    if arguments.fresh:
        remove_old(cases)
    python = install(arguments.peers_env, arguments.torch) if peers else Path()
    for case in cases:
        sides = ["ours", *(peer for peer in peers if peer in case.peers)]
        for cores in (n for n in arguments.cores if n in case.cores):
            rounds = arguments.rounds or (3 if cores == 1 else 5)
            for turn, side in itertools.product(range(rounds), sides):
                key = (case.name, side, str(cores), str(turn))
                if key in known():
                    continue
                value, gflops = measure(case, side, cores, python)
                cells = (*key, f"{value:.2f}", UNITS[case.measure], f"{gflops:.1f}")
                row = dict(zip(COLUMNS, cells, strict=True))
                records.append(RESULTS, row | {"versions": versions(side, python)})
                print(*cells, sep="; ", flush=True)


def report(cases: list[Case]) -> None:
    print("| | cores | | median | min to max | ours better by | of the ceiling |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for case, cores in itertools.product(cases, (1, 2)):
        sides, shares = measured(case, cores)
        for side, values in sides.items():
            ratio = advantage(sides["ours"], values, case) if side != "ours" else ""
            share = f"{statistics.median(shares[side]):.0f} %" if case.mflop else ""
            cells = (case.name, str(cores), side, *spread(values, case), ratio, share)
            print(f"| {' | '.join(cells)} |")


def measured(
    case: Case, cores: int
) -> tuple[dict[str, dict[str, float]], dict[str, list[float]]]:
    """The values of each side by round, and their percentages of the ceiling."""
    sides: dict[str, dict[str, float]] = {}
    shares: dict[str, list[float]] = {}
    for (name, side, count, turn), row in known().items():
        if (name, count) == (case.name, str(cores)):
            value, gflops = float(row["value"]), float(row["sgemm_gflops"])
            sides.setdefault(side, {})[turn] = value
            shares.setdefault(side, []).append(value * case.mflop / gflops / 10)
    return sides, shares


def summary(cases: list[Case], cores: int = 1) -> None:
    """Print a line per case of speed: ours, and how many times the peers'."""
    print("| one core | jaxrl | against SB3 | against SBX | of the ceiling |")
    print("| --- | --- | --- | --- | --- |")
    for case in cases:
        sides, shares = measured(case, cores)
        if case.measure != "speed" or "ours" not in sides:
            continue
        median, _ = spread(sides["ours"], case)
        ratios = [
            f"{advantage(sides['ours'], sides[peer], case).split()[0]} x"
            if peer in sides
            else ""
            for peer in PEERS
        ]
        share = f"{statistics.median(shares['ours']):.0f} %" if case.mflop else ""
        name = f"{case.name}, {case.env}"
        print(f"| {' | '.join([name, median, *ratios, share])} |")


def spread(values: dict[str, float], case: Case) -> tuple[str, str]:
    unit, measured = UNITS[case.measure], values.values()
    median, low, high = (
        f"{f(measured):,.{1 if unit == 's' else 0}f}"
        for f in (statistics.median, min, max)
    )
    return f"{median} {unit}", f"{low} to {high}, {len(values)} rounds"


def advantage(mine: dict[str, float], its: dict[str, float], case: Case) -> str:
    """Ratio of medians, and in brackets those of the rounds that both have."""
    both = mine.keys() & its
    rounds = [ratio({turn: mine[turn]}, {turn: its[turn]}, case) for turn in both]
    middle = ratio(mine, its, case)
    return f"{middle:.2f} ({min(rounds):.2f} to {max(rounds):.2f})"


def ratio(mine: dict[str, float], its: dict[str, float], case: Case) -> float:
    """Of the medians over rounds; above 1 jaxrl is better."""
    sign = 1 if case.measure == "speed" else -1
    return (statistics.median(mine.values()) / statistics.median(its.values())) ** sign


def add_environment_flags(parser: argparse.ArgumentParser) -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser.add_argument(
        "--peers-env",
        type=Path,
        default=cache / "jaxrl" / "peers",
        help="virtual environment of the peers; created if missing",
    )
    parser.add_argument(
        "--torch", default="torch==2.13.0", help="PyTorch requirement for pip"
    )


def chosen(text: str, known: Iterable[str]) -> list[str]:
    """The peers that a flag names."""
    names = [name for name in text.split(",") if name]
    if unknown := set(names) - set(known):
        found = ", ".join(sorted(unknown))
        sys.exit(f"unknown peer {found}; choose from {', '.join(known)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", default="", help="cases whose name contains this")
    add("--cores", default="1,2", help="numbers of cores to measure with [1,2]")
    add("--rounds", type=int, help="rounds per case [3 on one core, else 5]")
    add("--peers", default="", help="libraries to compare with: sb3,sbx [none]")
    add_environment_flags(parser)
    add("--fresh", action="store_true", help="discard these cases' earlier results")
    add("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only in case.name]
    if not cases:
        sys.exit("no such case; the cases are\n  " + "\n  ".join(c.name for c in CASES))
    arguments.peers = chosen(arguments.peers, PEERS)
    arguments.cores = [int(count) for count in arguments.cores.split(",")]
    if max(arguments.cores) > len(CORES):
        sys.exit(f"--cores exceeds the {len(CORES)} cores of this machine")
    if not arguments.report:
        run(cases, arguments)
    report(cases)


if __name__ == "__main__":
    main()
