"""The directory of a case: runs and files to work on, and what is outside of them.

work/      where the command runs: runs/, sweep.yaml, find.yaml, settings.yaml
outside/   files with a secret, among them a twin of each file of a run
home/      the home directory
tmp/       temporary files
"""

import base64
import contextlib
import hashlib
import os
import re
import shutil
import stat
from pathlib import Path

from jaxrl.algos import vpg

from . import processes

SECRET = "Xq7-kept-from-all-outputs-w3J"
SMALL = "--hidden 8 --steps_per_epoch 32 --steps 64 --seed 0"
MINE = f"mine.py --env CartPole-v1 {SMALL}"  # a user's algorithm, a copy of vpg
PPO = f"ppo --env CartPole-v1 {SMALL} --minibatches 2"
SAC = f"sac --env Pendulum-v1 {SMALL} --start_steps 8 --update_after 8 --batch_size 8"
SAC += " --replay_size 100 --update_every 8 --num_test_episodes 1 --max_ep_len 20"
SWEEP = """\
name: sweep
algo: ppo
env: CartPole-v1
seed: [0, 1]
gamma[g]: [0.98, 0.99]
steps: 64
steps_per_epoch: 32
hidden: [8]
zip:
  - {minibatches: [1, 2], train_pi_iters: [2, 3]}
exclude:
  - {seed: 1, gamma: 0.98}
include:
  - {lam: 0.9}
per_env:
  CartPole-v1: {vf_lr: 1e-3}
slurm: {partition: gpu, time: 4:00:00, cpus: 2, sbatch: {nice: 100}}
"""
ONE = """\
name: one
algo: ppo
env: CartPole-v1
steps: 64
steps_per_epoch: 32
hidden: [8]
minibatches: 2
"""
FIND = """\
name: find
algo: ppo
env: CartPole-v1
steps: 64
steps_per_epoch: 32
minibatches: 2
trials: 1
sampler: random
pruner: none
space:
  pi_lr: {log_uniform: [1e-5, 1e-2]}
  gamma: {uniform: [0.9, 0.999]}
  train_pi_iters: {int: [1, 4]}
  hidden: {choice: [[8], [8, 8]]}
"""
SETTINGS = """\
algo: ppo
env: CartPole-v1
steps: 64
steps_per_epoch: 32
hidden: [8]
minibatches: 2
gamma: 0.98
normalize_obs: true
activation: tanh
env_kwargs: {max_episode_steps: 50}
exp_name: from-file
"""
FILES = {"sweep.yaml": SWEEP, "one.yaml": ONE, "find.yaml": FIND}
FILES |= {"settings.yaml": SETTINGS, "mine.py": Path(vpg.__file__).read_text()}
GOOD = "runs/good/good_s0"  # the neighbour, which no case touches
BAD = "runs/bad/bad_s0"  # a victim
# The victims, by the name of the template.
VICTIMS = {"ppo": BAD, "sac": BAD}
VICTIMS |= {"one": "runs/one", "find": "runs/find"}


class Sandbox:
    """Makes the directories of cases from templates, which are trained once."""

    def __init__(self, root: Path) -> None:
        self.root, self.cache = root, root / "cache"
        self._templates = root / "templates"

    def build(self) -> None:
        """Trains the runs of the templates."""
        commands = {
            "good": f"train {PPO} --exp_name good",
            "ppo": f"train {PPO} --exp_name bad",
            "sac": f"train {SAC} --exp_name bad",
            "one": "grid one.yaml --jobs 1",
            "find": "search find.yaml --jobs 1",
        }
        for directory in ("home", "tmp", "outside"):
            (self.root / "building" / directory).mkdir(parents=True)
        for name, command in commands.items():
            work = self._templates / name
            work.mkdir(parents=True)
            for file, text in FILES.items():
                (work / file).write_text(text)
            limits = processes.Limits(environment=self._environment("building"))
            printed = self.root / f"{name}.txt"
            ended = processes.run(command.split(), work, printed, limits)
            if ended.code != 0:
                raise RuntimeError(f"jaxrl {command} failed: {printed.read_text()}")
        for name in ("ppo", "sac"):
            _add_rare_files(self._templates / name / VICTIMS[name])

    def _environment(self, case: str) -> dict[str, str]:
        own = {"HOME": self.root / case / "home", "TMPDIR": self.root / case / "tmp"}
        own |= {"XDG_CACHE_HOME": self.cache, "MPLCONFIGDIR": self.cache}
        return {name: str(path) for name, path in own.items()}

    def limits(self, case: str, stop_by: int, output: str) -> processes.Limits:
        return processes.Limits(stop_by, output, self._environment(case))

    def make(self, case: str, victim: str) -> Path:
        """The directory of a case with a good run and a victim."""
        root = self.root / case
        for name in ("home", "tmp", "outside"):
            (root / name).mkdir(parents=True)
        for name in ("good", victim):
            source = self._templates / name
            shutil.copytree(source, root / "work", symlinks=True, dirs_exist_ok=True)
        _write_secrets(root / "outside", root / "work" / VICTIMS[victim])
        return root

    def remove(self, case: str) -> None:
        shutil.rmtree(self.root / case, ignore_errors=True)


def _add_rare_files(run: Path) -> None:
    """What only some runs have."""
    (run / "videos").mkdir()
    (run / "videos" / "32.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(64))
    (run / "failure.txt").write_text("it failed\n")


def _write_secrets(outside: Path, run: Path) -> None:
    (outside / "secret.txt").write_text(f"{SECRET}\n")
    (outside / "directory").mkdir()
    (outside / "directory" / "secret.txt").write_text(f"{SECRET}\n")
    for file in run.rglob("*"):
        if file.is_file():
            twin = outside / "twin" / file.relative_to(run)
            twin.parent.mkdir(parents=True, exist_ok=True)
            twin.write_bytes(_with_secret(file.name, file.read_bytes()))


def _with_secret(name: str, content: bytes) -> bytes:
    """The content with the secret in a place where it may be shown."""
    secret = SECRET.encode()
    if name.endswith(".csv"):
        return content.replace(b"Time", secret, 1)
    if name.endswith(".yaml"):
        content = content.replace(b"kwargs: {}", b"kwargs: {x: " + secret + b"}")
        return re.sub(rb"processor: .*", b"processor: " + secret, content)
    if name == "status.json":
        return content.replace(b'"reason": ""', b'"reason": "' + secret + b'"')
    if name.endswith(".json"):
        return content.replace(b"CartPole-v1", secret)
    return content + secret


def fingerprint(root: Path) -> dict[str, str]:
    """What is at each path below: kind, and content or target."""
    found = {}
    for directory, inner, files in os.walk(root):
        for name in [*inner, *files]:
            path = os.path.join(directory, name)
            with contextlib.suppress(FileNotFoundError):
                found[os.path.relpath(path, root)] = _state(path)
    return found


def _state(path: str) -> str:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return f"link to {os.readlink(path)}"
    if stat.S_ISREG(status.st_mode):
        if status.st_size > 10_000_000:  # sparse
            return f"{status.st_mode:o} of {status.st_size} bytes"
        content = Path(path).read_bytes()
        return f"{status.st_mode:o} {hashlib.sha256(content).hexdigest()}"
    return f"{status.st_mode:o}"


def changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Paths that are new, gone or different."""
    paths = before.keys() | after.keys()
    return sorted(path for path in paths if before.get(path) != after.get(path))


def has_secret(content: bytes) -> bool:
    """Also as base64, in which pages hold videos."""
    return any(form in content for form in FORMS)


def _forms() -> list[bytes]:
    """The secret as it is and as base64, from each of three places in a text."""
    secret = SECRET.encode()
    encoded = [base64.b64encode(b"x" * i + secret)[4:-4] for i in range(3)]
    return [secret, *encoded]


FORMS = _forms()
