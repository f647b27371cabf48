"""Starting programs and runs in several processes, as a user would."""

import os
import subprocess
import sys
import time
from pathlib import Path

from small_runs import table

from jaxrl.processes import mpirun

HERE = Path(__file__).parent
JAXRL = [sys.executable, "-m", "jaxrl"]
RANK = b"OMPI_COMM_WORLD_RANK="


def start(words, ranks=1, **environment):
    """A program in `ranks` processes, as a user would start it."""
    known_here = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    known_here["PYTHONPATH"] = f"{HERE}{os.pathsep}{HERE.parent}"
    known = mpirun.environment_for(threads=1) | known_here
    launcher = [mpirun.mpirun(), "-n", str(ranks)] if ranks > 1 else []
    return subprocess.Popen(
        [*launcher, *words],
        env=known | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process, seconds=240):
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out, err


def program(name, *words, ranks=1, **environment):
    words = [sys.executable, str(HERE / "ranks.py"), name, *map(str, words)]
    code, out, err = ended(start(words, ranks, **environment))
    assert code == 0, out + err


def left_behind(mark):
    """Processes whose command line names this directory."""
    found = subprocess.run(["pgrep", "-f", str(mark)], capture_output=True, text=True)
    return found.stdout.split()


def none_left_behind(mark, seconds):
    until = time.monotonic() + seconds
    while left_behind(mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def rank_of(process):
    try:
        words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = [w.partition(b"=")[2].decode() for w in words if w.startswith(RANK)]
    return found[0] if found else None


def train_words(out, algo="vpg", env="Pendulum-v1", **settings):
    small = {"hidden": "8", "steps_per_epoch": 48, "steps": 192, "out": str(out)}
    if algo == "ppo":
        small["minibatches"] = 2
    if algo in ("ddpg", "td3", "sac"):
        small |= {"start_steps": 20, "update_after": 20, "update_every": 8}
        small |= {"batch_size": 24, "max_ep_len": 30, "replay_size": 100}
    words = [*JAXRL, "train", algo, "--env", env, "--exp_name", "x"]
    for name, value in (small | settings).items():
        words += [f"--{name}", str(value)]
    return words


def run_of(out, seed=0):
    return out / "x" / f"x_s{seed}"


def trained(out, algo="vpg", ranks=2, **settings):
    words = train_words(out, algo, num_procs=ranks, **settings)
    code, printed, err = ended(start(words))
    assert code == 0, err
    return printed


def begun(words, out, ranks=1):
    """A run under way, past its first row."""
    process = start(words, ranks)
    while not (run_of(out) / "progress.csv").exists():
        assert process.poll() is None
        time.sleep(0.05)
    while not table(run_of(out)):
        assert process.poll() is None
        time.sleep(0.05)
    return process
