"""Command lines, and ways to change one."""

import string

from . import odd
from .mutations import Random
from .sandbox import BAD, MINE, PPO, SAC

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
    f"verify {BAD} --epochs 1",
    "new other.py --from sac",
    "check mine.py",
    f"train ./{MINE} --exp_name new",
    f"eval {BAD} --episodes 2 --model best --seed 3 --json --max_len 20",
    f"eval {BAD} --episodes 7 --model 64 --stochastic",
    f"video {BAD} -o new.gif --max_len 5",
    f"export {BAD} -o new.npz --model last",
    f"export {BAD} -o new.onnx",
    "plot runs -y Performance EpLen -x TotalEnvInteracts -o new.png --smooth 2",
    "plot runs --group algo --est iqm --band sd --select seed=0 --legend a --facet x",
    "plot runs --suite --exclude x* -o new.svg",
    "report runs -o new.html",
    "ls runs --json",
    "ls",
    "completion bash",
    "exercise 5",
    "exercise 1 --check settings.yaml",
    "train sac --help",
    "--version",
]
ODD_FLAGS = ["--seed", "--steps", "--gamma", "--hidden", "--env_kwargs", "--env", "-x"]
ODD_FLAGS += ["--exp_name", "--name", "--model", "--episodes", "--jobs", "--trials"]
ODD_FLAGS += ["--time_limit", "--smooth", "--max_len", "--activation", "--preset", "-o"]
ODD_FLAGS += ["--config", "--select", "--target_kl", "--lr", "--wandb", "--devices"]
ODD_FLAGS += ["--keep", "-y"]
ODD_WORDS = [*odd.WORDS, *odd.NUMBERS, "\udcff", "-h", "--json", "runs", "sweep.yaml"]
ODD_WORDS += ["{a: [}", "[1, [2]]", "%"]


def mutate(rng: Random, words: list[str]) -> None:
    """Changes a command line in one place."""
    at = rng.randrange(len(words))
    word = rng.choice(ODD_WORDS)
    flags = [i for i, flag in enumerate(words[:-1]) if flag.startswith("-")]
    way = rng.choice([0, 1, 2, 3, 4, 4, 4, 5, 6, 7, 7, 7, 8])
    if way == 0:
        del words[at]
    elif way == 1:
        words.insert(at, words[at])
    elif way == 2:
        other = rng.randrange(len(words))
        words[at], words[other] = words[other], words[at]
    elif way == 3:
        words.insert(rng.randrange(len(words) + 1), word)
    elif way == 4 and flags:
        words[rng.choice(flags) + 1] = word
    elif way == 5:
        words[at] += word
    elif way == 6:
        words[at] = _typo(rng, words[at])
    elif way == 7:
        words += [rng.choice(ODD_FLAGS), word]
    else:
        words[at : at + 2] = ["=".join(words[at : at + 2])]
    if not words:
        words.append(word)


def _typo(rng: Random, word: str) -> str:
    at, letter = rng.randrange(len(word) + 1), rng.choice(string.printable)
    return word[:at] + letter.replace("/", "") + word[at + rng.randrange(3) :]
