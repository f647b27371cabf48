"""The cases: from a number to a command and what is mutated for it."""

import dataclasses
import hashlib
import json
import os
import random
import shlex
import signal
from pathlib import Path

from . import command_lines, mutations
from .mutations import Random
from .sandbox import BAD, GOOD, MINE, VICTIMS

TRAINS = ("train", "resume", "rerun", "grid", "search", "verify", "check")
KINDS = {"words": 22, "sweep": 9, "find": 5, "settings": 7, "run": 38, "place": 12}
KINDS |= {"grid": 3, "search": 1, "algorithm": 3}  # of a hundred cases
# What reads or continues a run whose files are mutated; often used first.
ON_RUNS = ["ls runs", "ls runs --json", "report runs -o new.html", "report runs/bad"]
ON_RUNS += ["plot runs -o new.png", "plot runs --group algo -y EpLen -o new.svg"]
ON_RUNS += [f"eval {BAD} --episodes 1 --max_len 20", f"resume {BAD} --steps 96"]
ON_RUNS += [f"resume {BAD}", f"export {BAD} -o new.npz", f"rerun {BAD} --steps 32"]
ON_RUNS += [f"eval {BAD} --episodes 2 --model best --stochastic --json --max_len 9"]
ON_RUNS += [f"eval {BAD} --episodes 1 --model 32 --max_len 9", "plot runs --suite"]
ON_RUNS += [f"rerun {BAD} --seed 7 --steps 32", f"resume {BAD} --steps 96"]
ON_RUNS += [f"video {BAD} -o new.gif --max_len 3", f"export {BAD} -o new.onnx"]
ON_RUNS += [f"verify {BAD} --epochs 1", f"verify {BAD}"]
# The files of a run, by what reads them; those without a wildcard need not be there.
SHOWN = ["config.yaml"] * 3 + ["status.json", "progress.csv"] * 2 + [".lock", "videos"]
SHOWN += ["failure.txt", "videos/32.mp4", "checkpoints/*/progress.csv", "checkpoints"]
PLAYED = ["config.yaml", "models/best/policy.npz", "models/last/policy.npz"] * 3
PLAYED += ["models/last/model.json", "models/32/model.json", "models/last", "models"]
SAVED = [f"checkpoints/*/{name}" for name in ("manifest.json", "rest.json")] * 4
SAVED += [f"checkpoints/*/{name}" for name in ("run.yaml", "progress.csv")] * 2
SAVED += [f"checkpoints/*/arrays/{name}" for name in ("_METADATA", "d/*")]
SAVED += ["checkpoints/*/arrays/ocdbt.process_0/d/*", "replay/*", "replay/*", "replay"]
SAVED += ["checkpoints/*/arrays/manifest.ocdbt", "checkpoints/*/arrays", "tb/*", "tb"]
ALL = [*SHOWN, *PLAYED, *SAVED]
READ = dict.fromkeys(["ls", "plot", "report"], SHOWN)
READ |= dict.fromkeys(["resume", "verify"], ALL)
READ |= dict.fromkeys(["eval", "video", "export"], PLAYED) | {"rerun": ["config.yaml"]}
# Temporary names that could be guessed, and places that are written later.
WRITTEN = [".config.yaml.new", ".progress.csv.new", ".status.json.new", "config.yaml"]
WRITTEN += ["progress.csv", "status.json", ".lock", "models", "checkpoints", "tb"]
WRITTEN += ["replay"]
WRITTEN += ["models/96", "models/.last.new", "models/last", "checkpoints/2", "videos"]
WRITTEN += ["checkpoints/.3.new", "models/last/policy.npz", "models/last/model.json"]
WRITTEN += ["checkpoints/*/rest.json", "failure.txt", "videos/32.mp4", "tb/*", "wandb"]
GRID_FILES = [f"one/one_s0.{end}" for end in ("yaml", "txt", "json")] * 2 + [".lock"]
GRID_FILES += [f"one/one_s0/{end}" for end in ("config.yaml", "status.json", ".lock")]
GRID_FILES += ["one/one_s0/progress.csv", "one/one_s0", "one/one_s0/*"]
SEARCH_FILES = ["trials.db", "trials.db", ".lock", "*", "find_t0/*", "find_t0/*/*"]
ON_GRIDS = ["grid one.yaml --jobs 1", "ls runs", "report runs -o new.html"]
ON_GRIDS += ["grid one.yaml --dry_run", "grid one.yaml --overwrite --jobs 1"]
# Commands that write, and those whose output others see.
ON_PLACES = [f"resume {BAD} --steps 96"] * 3 + [f"rerun {BAD} --steps 32", *ON_RUNS]
ON_PLACES += ["report runs -o new.html"] * 2
SEARCH = "search find.yaml --jobs 1 --time_limit 5s --trials"
# The commands of each kind of case.
ON = {"run": ON_RUNS, "place": ON_PLACES, "grid": ON_GRIDS, "search": [f"{SEARCH} 2"]}
ON |= {"sweep": ["grid sweep.yaml --dry_run"], "find": [f"{SEARCH} 1"]}
ON |= {"settings": ["train --config settings.yaml"]}
ON |= {"algorithm": ["check mine.py", "train ./mine.py --help", f"train ./{MINE}"]}


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
        if self.kind in ("words", "settings", "find", "algorithm"):
            return [""]
        new = [word for word in self.words if word.startswith("new.")]
        defaults = {"report": ["report.html"], "plot": ["suite.png"]}
        new += defaults.get(self.command, [])
        if self.command == "resume":
            return [BAD]
        if self.command == "rerun":
            return ["runs/bad-rerun", "runs/bad"]  # beside it
        grids = {"grid": ["runs/one"], "search": ["runs/find"]}
        dry = "--dry_run" in self.words
        return [] if dry else new + grids.get(self.command, [])

    @property
    def must_stay(self) -> list[str]:
        """Paths below the work directory that it may not write all the same."""
        return [GOOD, BAD] if self.command == "rerun" else [GOOD]


def make(seed: int, number: int) -> tuple[Case, Random]:
    """The case of a number, and the generator with which `prepare` continues."""
    rng = random.Random(f"{seed} {number}")
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    victim = {"grid": "one", "search": "find"}.get(kind, rng.choice(["ppo", "sac"]))
    output = rng.choices(["plain", "ascii", "full"], [94, 4, 2])[0]
    return Case(number, kind, victim, _words(kind, rng), output), rng


def _words(kind: str, rng: Random) -> list[str]:
    """The command of a case; only of the kind `words` is it mutated itself."""
    if kind == "words":
        words = shlex.split(rng.choice(command_lines.LINES))
        for _ in range(rng.choice([1, 1, 2, 4])):
            command_lines.mutate(rng, words)
        return words
    return rng.choice(ON[kind]).split()


def prepare(case: Case, rng: Random, root: Path) -> None:
    """Mutates what the case mutates, in its directory."""
    work = root / "work"
    files = {"sweep": "sweep.yaml", "find": "find.yaml", "settings": "settings.yaml"}
    files |= {"algorithm": "mine.py"}
    if case.kind in files:
        path = work / files[case.kind]
        hows = [mutations.mutate(rng, path) for _ in range(rng.choice([1, 1, 2]))]
        case.what = f"{path.name} {', '.join(hows)}"
    elif case.kind in ("run", "grid", "search"):
        _damage(case, rng, work / VICTIMS[case.victim])
    elif case.kind == "place":
        _lead_outside(case, rng, work / BAD, root / "outside")


def _damage(case: Case, rng: Random, run: Path) -> None:
    names = {"grid": GRID_FILES, "search": SEARCH_FILES}
    read = READ.get(case.command, ALL)
    names["run"] = read if rng.random() < 0.8 else ALL
    for _ in range(rng.choice([1, 1, 1, 3])):
        path = _chosen(rng, run, rng.choice(names[case.kind]))
        if not _is_inside(path, run):  # an earlier mutation replaced its directory
            continue
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


def _is_inside(path: Path, run: Path) -> bool:
    """Whether nothing on the way from the run to it is a link or no directory."""
    above = [run / part for part in reversed(path.relative_to(run).parents)]
    return all(x.is_dir() and not x.is_symlink() for x in above if os.path.lexists(x))


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
