"""A run is data: the same `Run` gives the same bits.

Settings come as one flat set of names, from the command line, a YAML file or Python;
`make` sorts them into the run's own, those of its data and those of its algorithm, and
reports all mistakes at once. Nothing here imports JAX before a run is made.
"""

import copy
import dataclasses
import functools
import math
import re
import typing
from collections.abc import Mapping
from typing import Any, Literal

from jaxrl import algos
from jaxrl.algos import presets, user_files
from jaxrl.errors import UserError, suggestion
from jaxrl.settings import Auto, Count, Real, Size, Words, file_fields
from jaxrl.settings.fields import Field, call, fields
from jaxrl.settings.values import broken_rule, converted, plain

if typing.TYPE_CHECKING:
    from jaxrl.types import Algorithm, OffPolicy, OnPolicy

MODELS = ("last", "best")  # other models are named by their step
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """All that determines a run."""

    algo: str  # one of the six names, or the absolute path of a user's file
    env: str
    data: "OnPolicy | OffPolicy"
    config: Any
    algo_sha256: str = ""  # of a user's file
    preset: str = presets.DEFAULT  # whose defaults it has where nothing was given
    seed: Count = 0
    """Seed of every random draw."""
    steps: Count = 0
    """Total environment steps, on-policy rounded up to epochs; 0: set by `epochs`."""
    exp_name: str = ""
    """Name of the experiment; by default the algorithm and the environment."""
    out: str = "runs"
    """Directory that holds the experiments."""
    env_kwargs: dict = dataclasses.field(default_factory=dict)
    """Keyword arguments of the environment, as in '{frame_skip: 2}'."""
    networks: str = ""
    """Your own networks, as module:callable; called with the environment's spec."""
    env_workers: Count = 0
    """Processes that step the environments, at most num_envs; 0: this one does."""
    num_procs: Auto = 1
    """Processes that learn together, by mpirun; 0 or auto: one per physical core."""
    devices: Auto = 0
    """Devices per process that share each update; 0 or auto: all that fit."""
    checkpoint_every: Count = 1
    """Epochs between checkpoints, more if they take over 2 % of the time; 0: never."""
    keep: Size = 2
    """Number of checkpoints kept, the newest ones."""
    keep_models: Count = 20
    """Number of models kept by their step, evenly spread over the run."""
    save_every: Count = 0
    """Also keep the model of every Nth epoch by its step; 0 disables."""
    init_from: str = ""
    """Start with the parameters of this run, or of its models/NAME or checkpoints/N."""
    init_optimizer: bool = False
    """With --init_from, also take the optimisers' state, from a checkpoint."""
    stop_return: Real = math.inf
    """Finish when an epoch's mean return, of test episodes if any, is at least this."""
    stop_without_improvement: Count = 0
    """Finish after N epochs without a higher mean return; 0: never."""
    video_every: Count = 0
    """Record a video every N epochs (0: never); training pauses meanwhile."""
    overwrite: bool = False
    """Remove an earlier run of this name and seed; files of yours are moved aside."""
    wandb: bool = False
    """Also log to Weights & Biases."""
    wandb_tags: Words = ()
    """Tags of the run at Weights & Biases."""
    wandb_notes: str = ""
    """Notes on the run at Weights & Biases."""
    wandb_models: bool = False
    """Also upload each saved model to Weights & Biases, as an artifact."""
    # Not a setting: path, step and SHA-256 of what `init_from` gave.
    init_source: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def module(self) -> "Algorithm":
        """The algorithm's module."""
        return algos.get(self.algo, self.algo_sha256)

    @property
    def total_steps(self) -> int:
        """Environment steps of the whole run."""
        counts = self.steps, self.data.steps_per_epoch, self.data.epochs
        return total_steps(*counts, not hasattr(self.data, "replay_size"))

    def keeps_model(self, epoch: int) -> bool:
        """Whether the model of this epoch stays, under its step.

        `keep_models` of the epochs do, evenly spread, of which one is the last, and
        those of every `save_every` epochs.
        """
        epochs = -(-self.total_steps // self.data.steps_per_epoch)
        count = min(self.keep_models, epochs)
        kept, kept_before = (n * count // epochs for n in (epoch, epoch - 1))
        saved = self.save_every > 0 and epoch % self.save_every == 0
        return saved or self.records_video(epoch) or kept > kept_before

    def records_video(self, epoch: int) -> bool:
        """Whether a video of this epoch's policy is recorded."""
        return self.video_every > 0 and epoch % self.video_every == 0


class Setting(typing.NamedTuple):
    """One name that a user can set."""

    owner: Literal["run", "data", "config"]
    hint: Any
    default: Any
    help: str


def total_steps(steps: int, steps_per_epoch: int, epochs: int, on_policy: bool) -> int:
    """Of a run with these settings: `steps`, or else `epochs` epochs.

    An on-policy run learns from whole epochs, so it fills its last one.
    """
    if not steps:
        return steps_per_epoch * epochs
    if on_policy and steps_per_epoch:
        return -(-steps // steps_per_epoch) * steps_per_epoch
    return steps


OWN = tuple(fields(__name__, "Run"))
"""The settings of the run itself."""
RESERVED = ("algo", "env", "preset", "config", "settings", "machine", "name", "help")
"""Words that a command or a file has beside settings."""


def known_settings(
    algo: str, preset: str = presets.DEFAULT, execute: bool = True
) -> Mapping[str, Setting]:
    """All names that a run of `algo` can set, with the preset's defaults.

    A user's file is imported where its text does not say all. Without `execute` it
    never is: a ValueError then.
    """
    if not algos.is_file(algo):
        return _known_settings(algo, preset)
    path = user_files.absolute(algo)
    return _settings_in_file(path, user_files.digest(path), preset, execute)


@functools.cache
def _known_settings(algo: str, preset: str) -> Mapping[str, Setting]:
    changed = presets.changes(preset, algo)
    algos.check_name(algo)
    module = f"jaxrl.algos.{algo}"
    data, own = call(module, "DATA")
    return _sorted(fields("jaxrl.types", data), fields(module, "Config"), own | changed)


@functools.lru_cache(8)
def _settings_in_file(
    path: str, digest: str, preset: str, execute: bool
) -> Mapping[str, Setting]:
    presets.changes(preset, algos.label(path))
    text = user_files.content(path)
    load = functools.partial(algos.get, path, digest) if execute else None
    every = [fields("jaxrl.types", kind) for kind in file_fields.KINDS]
    taken = [*OWN, *RESERVED, *(name for known in every for name in known)]
    data, own, config = file_fields.read(path, text, load, taken)
    return _sorted(fields("jaxrl.types", data), config, own)


def _sorted(
    data: dict[str, Field], config: dict[str, Field], changed: Mapping[str, Any]
) -> Mapping[str, Setting]:
    """All settings, with changed defaults."""
    parts: dict[Any, dict[str, Field]] = {"data": data, "config": config}
    parts["run"] = fields(__name__, "Run")
    return {
        name: Setting(owner, hint, changed.get(name, default), sentence)
        for owner, found in parts.items()
        for name, (hint, default, sentence) in found.items()
    }


def make(
    algo: Any, env: str, given: Mapping[str, Any], preset: str = presets.DEFAULT
) -> Run:
    """The run of `algo` in `env` with the settings `given`, as text or as values.

    `algo` is one of the names, the path of a file, or a module. What is not given has
    the preset's default; `auto` is the preset of the environment.
    """
    algo, env = algos.named(plain(algo)), plain(env)
    if not isinstance(env, str):
        raise UserError(f"env is {env!r}, but must be a name")
    preset = presets.resolve(preset, algo, env)
    try:
        known = known_settings(algo, preset)
    except ValueError as error:
        raise UserError(str(error)) from None
    short = algos.label(algo)
    faults = [wrong for k, x in given.items() if (wrong := fault(short, k, x, known))]
    values = {k: converted(x, known[k].hint) for k, x in given.items() if k in known}
    name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{short}_{env}").lstrip(".-")
    exp_name = values.get("exp_name") or name
    if wrong := fault_in_name(str(exp_name), "exp_name"):
        faults.append(wrong)
    if faults:
        raise UserError("; ".join(faults))
    run = _assemble(algo, env, known, values | {"exp_name": exp_name})
    return dataclasses.replace(run, preset=preset)


def fault(algo: str, name: str, value: Any, known: Mapping[str, Setting]) -> str:
    """What is wrong with a setting of `algo`; empty if nothing is."""
    if name not in known:
        return f"{algo} has no setting {name!r}{suggestion(str(name), known)}"
    setting = known[name]
    # A number may be a name, but 3 is no directory.
    fitting = plain(value) if name == "out" else converted(value, setting.hint)
    rule = broken_rule(fitting, setting.hint)
    default = f"the default is {setting.default!r}"
    return rule and f"{name} is {value!r}, but must be {rule}; {default}"


def fault_in_name(name: str, what: str) -> str:
    """Why it cannot name a directory; empty if it can."""
    if NAME.fullmatch(name):
        return ""
    rule = "letters, digits, '.', '_' and '-', and begin with a letter or a digit"
    return f"{what} is {name!r}, but must be {rule}"


def _assemble(algo: str, env: str, known: Mapping, values: Mapping) -> Run:
    parts: dict[str, dict] = {"run": {}, "data": {}, "config": {}}
    for name, setting in known.items():
        parts[setting.owner][name] = values.get(name, copy.copy(setting.default))
    digest = user_files.digest(algo) if algos.is_file(algo) else ""
    module = algos.get(algo, digest)
    data = type(module.DATA)(**parts["data"])
    own = parts["run"] | {"algo_sha256": digest}
    run = Run(algo=algo, env=env, data=data, config=None, **own)
    if "total_updates" in parts["config"] and "total_updates" not in values:
        parts["config"]["total_updates"] = run.total_steps / data.steps_per_epoch
    return dataclasses.replace(run, config=module.Config(**parts["config"]))
