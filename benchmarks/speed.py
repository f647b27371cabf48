"""How fast training is, beside Stable-Baselines3 and SBX, in turns on one machine.

    python benchmarks/speed.py --peers sb3,sbx            # everything: hours
    python benchmarks/speed.py --only SAC --cores 1       # ours alone, on one core
    python benchmarks/speed.py --report

Every measurement is a process of its own, pinned to its cores, with as many threads,
between two of the machine's matrix product; the sides take turns. It is kept as soon as
it is made, and not made again. Steps a second count from the end of the first epoch
(on-policy) or from step 1000 (off-policy), when all is compiled, to the end.

All sides have the same environment in the same version, networks, batches and number of
gradient steps; nobody tests the policy. What differs: off-policy, the peers update
after every step and ours 50 times after 50, except that with Spinning Up's settings all
do so. PPO has one loss and optimiser in SB3, two in ours and SBX. TRPO's line search
ends at the first good step in sb3-contrib, ours tries all. Only ours writes files.

The ceiling of an off-policy figure is what the matrix products of its update allow at
the rate of the machine's. The first row is timed from the start of the process, or for
the peers the end of the first update. Peak memory is that with a replay of a million
transitions all written to, as when it is full.
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

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "speed.csv"
COLUMNS = ("case", "side", "cores", "round", "value", "unit", "sgemm_gflops")
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
run = spec.make(*sys.argv[1:3], json.loads(sys.argv[3]))
path = directory.run_path(run)
path.mkdir(parents=True)
parts = setup.prepare(run)
fill = lambda state, step: parts.buffer.rows[step:].fill(0)
session.run(parts, path, screen=False, on_epoch=fill)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
"""


class Case(NamedTuple):
    name: str
    algo: str
    env: str
    settings: dict[str, Any]  # ours
    arguments: dict[str, Any]  # the peers'
    steps: int
    warmup: int = 0  # steps before the clock starts
    mflop: float = 0  # of an update's matrix products, as update.py counts them
    measure: str = "speed"
    peers: tuple[str, ...] = PEERS
    cores: tuple[int, ...] = (1, 2)


def off_policy(name: str, algo: str, mflop: float, **arguments: Any) -> Case:
    """On Hopper, with updates from step 500 on."""
    settings = {"steps_per_epoch": 1000, "start_steps": 500, "update_after": 500}
    settings |= {"num_test_episodes": 0}
    arguments |= {"learning_starts": 500, "policy_kwargs": {"net_arch": [256, 256]}}
    return Case(name, algo, "Hopper-v4", settings, arguments, 3000, 1000, mflop)


def on_policy(algo: str, name: str, steps: int, ours: dict, theirs: dict) -> Case:
    """On HalfCheetah, 21 epochs of `steps`, with nothing normalised."""
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
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr[-1000:]}")
    return done.stdout


def seconds_to_line(
    count: int, path: Path, command: list[Any], env: dict[str, str]
) -> float:
    """From the start of the command, which is then ended, to a line of a file."""

    def ready() -> bool:
        return path.exists() and path.read_text().count("\n") >= count

    with tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, env=env, stdout=errors, stderr=errors)
        while not ready() and process.poll() is None:
            time.sleep(0.01)
        elapsed = time.perf_counter() - start
        process.kill()
        process.wait()
        errors.seek(0)
        if not ready():
            raise RuntimeError(f"{command} failed: {errors.read()[-1000:]}")
    return elapsed


def ours(case: Case, env: dict[str, str], out: Path) -> float:
    python = [sys.executable, "-c"]
    if case.measure == "memory":
        settings = json.dumps({"steps": case.steps, "out": str(out)})
        return float(output([*python, MEMORY, case.algo, case.env, settings], env))
    settings = case.settings | {"env": case.env, "exp_name": "speed", "out": out}
    train = [*python, "from jaxrl.cli.main import main; main()", "train", case.algo]
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
    """Steps a second from the row of step `warmup` to the last."""
    rows = csv.DictReader(progress.read_text().splitlines())
    clock = {float(row["TotalEnvInteracts"]): float(row["Time"]) for row in rows}
    last = max(clock)
    return (last - warmup) / (clock[last] - clock[warmup])


def theirs(
    case: Case, side: str, env: dict[str, str], out: Path, python: Path
) -> float:
    """The number that peers.py writes, or how long it takes to."""
    number, told = out / "number", json.dumps(case._asdict())
    command = [python, HERE / "peers.py", side, told, number]
    if case.measure == "cold":
        return seconds_to_line(1, number, command, env)
    output(command, env)
    return float(number.read_text())


def sgemm(env: dict[str, str], cores: int) -> float:
    command = [sys.executable, "-c", SGEMM, "--cores", str(cores)]
    return float(output(command, env, cwd=HERE))


def measure(case: Case, side: str, cores: int, python: Path) -> tuple[float, float]:
    """The value, and GFLOP/s of the matrix product, the mean of before and after."""
    os.sched_setaffinity(0, CORES[:cores])  # which the children inherit
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
    """The Python of an environment with the peers, which is made if it is not there."""
    python, done = directory / "bin" / "python", directory / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", directory], check=True)
        same = [f"{name}=={version(name)}" for name in ("gymnasium", "mujoco")]
        peers = ["stable-baselines3", "sb3-contrib", "sbx-rl", "gymnasium[mujoco]"]
        pip = [python, "-m", "pip", "install", "--quiet", torch, *peers, *same]
        subprocess.run(pip, check=True)
        done.touch()
    return python


def known() -> dict[tuple[str, ...], dict[str, str]]:
    """What was measured, by case, side, cores and round."""
    if not RESULTS.exists():
        return {}
    rows = csv.DictReader(RESULTS.read_text().splitlines())
    return {tuple(row[name] for name in COLUMNS[:4]): row for row in rows}


def keep(rows: Iterable[dict[str, str]], mode: str) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open(mode, newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        writer.writerows(rows)


def run(cases: list[Case], arguments: argparse.Namespace) -> None:
    peers = arguments.peers
    if arguments.fresh:
        names = [case.name for case in cases]
        keep([row for row in known().values() if row["case"] not in names], "w")
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
                row = (*key, f"{value:.2f}", UNITS[case.measure], f"{gflops:.1f}")
                keep([dict(zip(COLUMNS, row, strict=True))], "a")
                print(*row, sep="; ", flush=True)


def report(cases: list[Case]) -> None:
    print("| | cores | | median | lowest to highest | ours, times | of the ceiling |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for case, cores in itertools.product(cases, (1, 2)):
        sides: dict[str, dict[str, float]] = {}
        shares: dict[str, list[float]] = {}
        for (name, side, count, turn), row in known().items():
            if (name, count) == (case.name, str(cores)):
                value, gflops = float(row["value"]), float(row["sgemm_gflops"])
                sides.setdefault(side, {})[turn] = value
                shares.setdefault(side, []).append(value * case.mflop / gflops / 10)
        for side, values in sides.items():
            ratio = advantage(sides["ours"], values, case) if side != "ours" else ""
            share = f"{statistics.median(shares[side]):.0f} %" if case.mflop else ""
            cells = (case.name, str(cores), side, *spread(values, case), ratio, share)
            print(f"| {' | '.join(cells)} |")


def spread(values: dict[str, float], case: Case) -> tuple[str, str]:
    unit, measured = UNITS[case.measure], values.values()
    median, low, high = (
        f"{f(measured):,.{1 if unit == 's' else 0}f}"
        for f in (statistics.median, min, max)
    )
    return f"{median} {unit}", f"{low} to {high}, {len(values)} rounds"


def advantage(mine: dict[str, float], its: dict[str, float], case: Case) -> str:
    """Of medians, and of the rounds that both have; above 1, ours does better."""
    sign = 1 if case.measure == "speed" else -1
    middle = statistics.median(mine.values()) / statistics.median(its.values())
    ratios = [(mine[turn] / its[turn]) ** sign for turn in mine.keys() & its]
    return f"{middle**sign:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    add = parser.add_argument
    add("--only", default="", help="cases whose name contains this")
    add("--cores", default="1,2", help="numbers of cores (1,2)")
    add("--rounds", type=int, help="of each case (3 on one core, else 5)")
    add("--peers", default="", help="those to compare with, of sb3,sbx (none)")
    add("--peers-env", type=Path, default=cache / "jaxrl" / "peers")
    add("--torch", default="torch==2.13.0", help="PyTorch, for pip (a CPU build)")
    add("--fresh", action="store_true", help="measure again what was measured")
    add("--report", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only in case.name]
    if not cases:
        sys.exit("no such case; there are\n  " + "\n  ".join(c.name for c in CASES))
    arguments.peers = [peer for peer in arguments.peers.split(",") if peer]
    if unknown := set(arguments.peers) - set(PEERS):
        sys.exit(f"no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    arguments.cores = [int(count) for count in arguments.cores.split(",")]
    if max(arguments.cores) > len(CORES):
        sys.exit(f"--cores asks for more than the {len(CORES)} of this machine")
    if not arguments.report:
        run(cases, arguments)
    report(cases)


if __name__ == "__main__":
    main()
