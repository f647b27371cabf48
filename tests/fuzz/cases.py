"""The cases: from a number to a command and what is mutated for it."""

import dataclasses
import hashlib
import json
import random
import shlex
import signal
import string
from pathlib import Path

from . import mutations
from .mutations import Random
from .sandbox import PPO, SAC, VICTIMS

BAD = VICTIMS["ppo"]
TRAINS = ("train", "resume", "rerun", "grid", "search")
KINDS = {"words": 24, "sweep": 12, "find": 5, "settings": 8, "run": 36, "place": 11}
KINDS |= {"grid": 3, "search": 1}  # of a hundred cases, about
LINES = [
    f"train {PPO} --exp_name new",
    f"train {SAC} --exp_name new",
    "train vpg --env CartPole-v1 --steps=64 --steps_per_epoch 32 --hidden 8,8",
    "train trpo --env CartPole-v1 --steps 64 --steps_per_epoch 32 --no_normalize_obs",
    "train td3 --env Pendulum-v1 --env_kwargs '{g: 9.8}' --steps 40 --preset spinup",
    "train --config settings.yaml --seed 4",
    "grid ppo --env CartPole-v1 --seed 0 1 --gamma[g] 0.9 0.99 --dry_run",
    "grid sweep.yaml --dry_run --name other --jobs 2 --time_limit 30m --retries 1",
    "search find.yaml --trials 1 --jobs 1 --time_limit 90s --out found",
    f"resume {BAD} --steps 96",
    f"rerun {BAD} --seed 5 --steps 32",
    f"eval {BAD} --episodes 2 --model best --seed 3 --json --max_len 20",
    f"eval {BAD} --episodes 7 --model 64 --stochastic",
    f"video {BAD} -o new.gif --max_len 5",
    f"export {BAD} -o new.npz --model last",
    f"export {BAD} -o new.onnx",
    "plot runs -y Performance EpLen -x TotalEnvInteracts -o new.png --smooth 2",
    "plot runs --group algo --est iqm --band sd --select seed=0 --legend a --facet none",
    "plot runs --suite --exclude x* -o new.svg",
    "report runs -o new.html",
    "ls runs --json",
    "ls",
    "completion bash",
    "train sac --help",
    "--version",
]
# What reads or continues a run whose files are mutated; often used first.
ON_RUNS = ["ls runs", "ls runs --json", "report runs -o new.html", "report runs/bad"]
ON_RUNS += ["plot runs -o new.png", "plot runs --group algo -y EpLen -o new.svg"]
ON_RUNS += [f"eval {BAD} --episodes 1 --max_len 20", f"resume {BAD} --steps 96"]
ON_RUNS += [f"resume {BAD}", f"export {BAD} -o new.npz", f"rerun {BAD} --steps 32"]
ON_RUNS += [f"eval {BAD} --episodes 2 --model best --stochastic --json --max_len 9"]
ON_RUNS += [f"eval {BAD} --episodes 1 --model 32 --max_len 9", "plot runs --suite"]
ON_RUNS += [f"rerun {BAD} --seed 7 --steps 32", f"resume {BAD} --steps 96"]
ON_RUNS += [f"video {BAD} -o new.gif --max_len 3", f"export {BAD} -o new.onnx"]
# The files of a run; those without a wildcard are put there if they are absent.
RUN_FILES = ["config.yaml"] * 6 + ["status.json", "progress.csv"] * 3 + [".lock"] * 2
RUN_FILES += ["models/last/policy.npz", "models/last/model.json"] * 2 + ["failure.txt"]
RUN_FILES += ["models/best/policy.npz", "models/32/model.json", "videos/32.mp4", "tb/*"]
RUN_FILES += [f"checkpoints/*/{name}" for name in ("manifest.json", "rest.json")] * 3
RUN_FILES += [f"checkpoints/*/{name}" for name in ("run.yaml", "progress.csv")] * 2
RUN_FILES += [f"checkpoints/*/arrays/{name}" for name in ("_METADATA", "d/*")]
RUN_FILES += ["checkpoints/*/arrays/ocdbt.process_0/d/*", "replay/*", "replay/*"]
RUN_FILES += ["checkpoints/*/arrays/manifest.ocdbt", "checkpoints/*/arrays"]
RUN_FILES += ["models", "checkpoints", "tb", "replay", "videos", "models/last"]
# Temporary names that could be guessed, and places that are written later.
WRITTEN = [".config.yaml.new", ".progress.csv.new", ".status.json.new", "config.yaml"]
WRITTEN += [
    "progress.csv",
    "status.json",
    ".lock",
    "models",
    "checkpoints",
    "tb",
    "replay",
]
WRITTEN += ["models/96", "models/.last.new", "models/last", "checkpoints/2", "videos"]
WRITTEN += ["checkpoints/.3.new", "models/last/policy.npz", "models/last/model.json"]
WRITTEN += ["checkpoints/*/rest.json", "failure.txt", "videos/32.mp4", "tb/*", "wandb"]
GRID_FILES = ["one_s0.yaml", "one_s0.txt", "one_s0.json", "one/one_s0/config.yaml", "*"]
GRID_FILES += ["one_s0/config.yaml", "one_s0/status.json", "one_s0/progress.csv", "*/*"]
ON_GRIDS = ["grid one.yaml --jobs 1", "ls runs", "report runs -o new.html"]
ON_GRIDS += ["grid one.yaml --dry_run", "grid one.yaml --overwrite --jobs 1"]
ODD_FLAGS = [
    "--seed",
    "--steps",
    "--gamma",
    "--hidden",
    "--env_kwargs",
    "--env",
    "--keep",
]
ODD_FLAGS += [
    "--exp_name",
    "--name",
    "--model",
    "--episodes",
    "--jobs",
    "--trials",
    "-y",
]
ODD_FLAGS += ["--time_limit", "--smooth", "--max_len", "--activation", "--preset", "-o"]
ODD_FLAGS += [
    "--config",
    "--select",
    "--target_kl",
    "--lr",
    "--wandb",
    "--devices",
    "-x",
]
ODD_WORDS = [word for word in mutations.WORDS if "\0" not in word]
ODD_WORDS += ["\udcff", "-h", "--json", "runs", "sweep.yaml", "{a: [}", "[1, [2]]", "%"]


@dataclasses.dataclass
class Case:
    """A command and what is mutated for it."""

    number: int
    kind: str
    victim: str
    words: list[str]
    output: str
    what: str = ""  # was mutated, and how

    @property
    def command(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def shown(self) -> str:
        words = shlex.join(self.words).encode(errors="backslashreplace").decode()
        words = words if len(words) < 300 else f"{words[:300]}..."
        note = "" if self.output == "plain" else f" [output {self.output}]"
        return f"{self.kind}: jaxrl {words}{note}   # {self.what}"

    @property
    def stop_by(self) -> int:
        """The signal that ends a command which may rightly take long."""
        if self.command in TRAINS:
            return signal.SIGTERM
        # A mutated number of episodes may be right and large.
        long = self.kind == "words" and self.command in ("eval", "video")
        return signal.SIGINT if long else 0

    @property
    def may_change(self) -> list[str]:
        """Paths below the work directory that the command may write; "" for all."""
        if self.kind in ("words", "settings", "sweep", "find"):
            return [""]
        new = [word for word in self.words if word.startswith("new.")]
        defaults = {"report": ["report.html"], "plot": ["suite.png"]}
        new += defaults.get(self.command, [])
        if self.command == "resume":
            return [BAD]
        if self.command == "rerun":
            return ["runs/bad-rerun", "runs/bad/bad_s7"]
        grids = {"grid": ["runs/one"], "search": ["runs/find"]}
        dry = "--dry_run" in self.words
        return [] if dry else new + grids.get(self.command, [])


def make(seed: int, number: int) -> tuple[Case, Random]:
    """The case of a number, and the generator with which `prepare` mutates its files."""
    rng = random.Random(f"{seed} {number}")
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    victim = {"grid": "one", "search": "find"}.get(kind, rng.choice(["ppo", "sac"]))
    output = rng.choices(["plain", "ascii", "full"], [94, 4, 2])[0]
    case = Case(number, kind, victim, [], output)
    getattr(Making, kind)(case, rng)
    return case, rng


class Making:
    """The words of a case of each kind."""

    @staticmethod
    def words(case: Case, rng: Random) -> None:
        line = rng.choice(LINES)
        case.words, case.what = shlex.split(line), "words"
        for _ in range(rng.choice([1, 1, 2, 4])):
            mutate_words(rng, case.words)

    @staticmethod
    def sweep(case: Case, rng: Random) -> None:
        case.words = "grid sweep.yaml --dry_run".split()

    @staticmethod
    def find(case: Case, rng: Random) -> None:
        case.words = "search find.yaml --trials 1 --jobs 1 --time_limit 5s".split()

    @staticmethod
    def settings(case: Case, rng: Random) -> None:
        case.words = "train --config settings.yaml".split()

    @staticmethod
    def run(case: Case, rng: Random) -> None:
        case.words = rng.choice(ON_RUNS).split()

    place = run

    @staticmethod
    def grid(case: Case, rng: Random) -> None:
        case.words = rng.choice(ON_GRIDS).split()

    @staticmethod
    def search(case: Case, rng: Random) -> None:
        case.words = "search find.yaml --trials 2 --jobs 1 --time_limit 5s".split()


def mutate_words(rng: Random, words: list[str]) -> None:
    """Changes a command line in one place."""
    at = rng.randrange(len(words))
    odd = rng.choice(ODD_WORDS + mutations.NUMBERS)
    flags = [i for i, word in enumerate(words[:-1]) if word.startswith("-")]
    way = rng.randrange(9)
    if way == 0:
        del words[at]
    elif way == 1:
        words.insert(at, words[at])
    elif way == 2:
        other = rng.randrange(len(words))
        words[at], words[other] = words[other], words[at]
    elif way == 3:
        words.insert(rng.randrange(len(words) + 1), odd)
    elif way == 4 and flags:
        words[rng.choice(flags) + 1] = odd
    elif way == 5:
        words[at] += odd
    elif way == 6:
        words[at] = _typo(rng, words[at])
    elif way == 7:
        words += [rng.choice(ODD_FLAGS), odd]
    else:
        words[at : at + 2] = ["=".join(words[at : at + 2])]
    if not words:
        words.append(odd)


def _typo(rng: Random, word: str) -> str:
    at, letter = rng.randrange(len(word) + 1), rng.choice(string.printable)
    return word[:at] + letter.replace("/", "") + word[at + rng.randrange(3) :]


def prepare(case: Case, rng: Random, root: Path) -> None:
    """Mutates what the case mutates, in its directory."""
    work = root / "work"
    files = {"sweep": "sweep.yaml", "find": "find.yaml", "settings": "settings.yaml"}
    if case.kind in files:
        path = work / files[case.kind]
        hows = [mutations.mutate(rng, path) for _ in range(rng.choice([1, 1, 2]))]
        case.what = f"{path.name} {', '.join(hows)}"
    elif case.kind in ("run", "grid", "search"):
        _damage(case, rng, work / VICTIMS[case.victim])
    elif case.kind == "place":
        _lead_outside(case, rng, work / BAD, root / "outside")


def _damage(case: Case, rng: Random, run: Path) -> None:
    names = {"run": RUN_FILES, "grid": GRID_FILES, "search": ["trials.db", "*"]}
    for _ in range(rng.choice([1, 1, 1, 3])):
        path = _chosen(rng, run, rng.choice(names[case.kind]))
        how = mutations.mutate(rng, path)
        case.what += f"{path.relative_to(run)} {how}; "
    if rng.random() < 0.5:
        _correct_sums(run)
        case.what += "sums corrected"


def _lead_outside(case: Case, rng: Random, run: Path, outside: Path) -> None:
    """Puts links, or settings with paths, that lead out of the run."""
    if rng.random() < 0.25:
        case.what = _write_paths(rng, run, outside)
        return
    path = _chosen(rng, run, rng.choice(WRITTEN))
    twin = outside / "twin" / path.relative_to(run)
    targets = [outside / "secret.txt", outside / "directory", outside / "new"]
    target = rng.choice([*targets, twin, twin, twin])
    mutations.remove(rng, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    case.what = f"{path.relative_to(run)} is a link to {target.relative_to(outside)}"


def _write_paths(rng: Random, run: Path, outside: Path) -> str:
    """Settings that name another directory, or a module beside the run."""
    code = f"open({str(outside / 'canary')!r}, 'w')"
    for place in (run, run.parents[2]):
        (place / "evil.py").write_text(code)
    config = run / "config.yaml"
    text = config.read_text()
    ways = {
        "out": text.replace("out: runs", f"out: {outside}"),
        "up": text.replace("exp_name: bad", "exp_name: ../../../outside"),
        "good": text.replace("exp_name: bad", "exp_name: good\noverwrite: true"),
        "env": text.replace("env: ", "env: evil:"),
        "both": text.replace("out: runs", f"out: {outside}\noverwrite: true"),
    }
    name = rng.choice(list(ways))
    config.write_text(ways[name])
    for file in run.glob("checkpoints/*/run.yaml"):
        file.write_text(ways[name])
    _correct_sums(run)
    return f"config.yaml with another place: {name}"


def _chosen(rng: Random, run: Path, name: str) -> Path:
    found = sorted(run.glob(name))
    return rng.choice(found) if found else run / name.replace("*", "1")


def _correct_sums(run: Path) -> None:
    """Makes the manifest of every checkpoint agree with its files again."""
    for manifest in run.glob("checkpoints/*/manifest.json"):
        if not manifest.is_file() or manifest.stat().st_size > 1_000_000:
            continue
        try:
            sums = json.loads(manifest.read_bytes())
        except (ValueError, RecursionError):
            continue
        for name in sums if isinstance(sums, dict) else ():
            file = manifest.parent / str(name)
            small = file.is_file() and file.stat().st_size < 10_000_000
            data = file.read_bytes() if small else b""
            sums[name] = hashlib.sha256(data).hexdigest()
        if isinstance(sums, dict):
            manifest.write_text(json.dumps(sums))
