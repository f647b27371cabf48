"""A run is data: the same `Run` gives the same bits.

Settings come as one flat set of names, from the command line, a YAML file or Python;
`make` sorts them into the run's own, those of its data and those of its algorithm, and
refuses all that is wrong at once.
"""

import ast
import contextlib
import dataclasses
import functools
import inspect
import itertools
import re
import textwrap
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from jaxrl import algos, checks
from jaxrl.algos.presets import preset
from jaxrl.errors import UserError, suggestion
from jaxrl.runs.reading import parsed, total_steps
from jaxrl.settings import Auto, Count, Size
from jaxrl.types import Algorithm, OffPolicy, OnPolicy

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """All that determines a run."""

    algo: str
    env: str
    data: OnPolicy | OffPolicy
    config: Any
    seed: Count = 0
    """Seed of every random draw."""
    steps: Count = 0
    """Environment steps of all processes, on-policy whole epochs; 0 takes `epochs`."""
    exp_name: str = ""
    """Name of the experiment; by default made of algorithm and environment."""
    out: str = "runs"
    """Directory that holds the experiments."""
    env_kwargs: dict = dataclasses.field(default_factory=dict)
    """Keyword arguments of the environment, as in '{frame_skip: 2}'."""
    num_procs: Auto = 1
    """Processes that learn together, by mpirun; 0 or auto for one a physical core."""
    devices: Auto = 0
    """Devices of a process that share each update; 0 or auto for all that can."""
    checkpoint_every: Count = 1
    """Epochs between two checkpoints, more if they took over 2 % of the time; or 0."""
    keep: Size = 2
    """Checkpoints kept, the newest ones."""
    keep_models: Count = 20
    """Models kept by their step, evenly over the run, beside the last and the best."""
    video_every: Count = 0
    """Epochs between two films of the greedy policy, for which training waits; or 0."""
    overwrite: bool = False
    """Remove an earlier run of this name and seed."""
    wandb: bool = False
    """Also log to Weights & Biases."""

    @property
    def module(self) -> Algorithm:
        return algos.get(self.algo)

    @property
    def total_steps(self) -> int:
        """Environment steps of the whole run."""
        counts = self.steps, self.data.steps_per_epoch, self.data.epochs
        return total_steps(*counts, isinstance(self.data, OnPolicy))

    def keeps_model(self, epoch: int) -> bool:
        """Whether the model of this epoch stays, under its step."""
        epochs = -(-self.total_steps // self.data.steps_per_epoch)
        every = -(-epochs // self.keep_models) if self.keep_models else 0
        return self.films(epoch) or (every > 0 and epoch % every == 0)

    def films(self, epoch: int) -> bool:
        """Whether the policy of this epoch is filmed."""
        return self.video_every > 0 and epoch % self.video_every == 0


class Setting(typing.NamedTuple):
    """One name that a user can set."""

    owner: Literal["run", "data", "config"]
    hint: Any
    default: Any
    help: str


OWN = (
    *("seed", "steps", "exp_name", "out", "env_kwargs", "num_procs", "devices"),
    *("checkpoint_every", "keep", "keep_models", "video_every", "overwrite", "wandb"),
)


@functools.cache
def documented(cls: type) -> dict[str, str]:
    """The sentence under each field of a class."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = typing.cast(ast.ClassDef, tree.body[0]).body
    return {
        field.target.id: str(doc.value.value)
        for field, doc in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
    }


def known_settings(algo: str, preset_name: str = "default") -> dict[str, Setting]:
    """All names that a run of `algo` can set, with the preset's defaults."""
    module = algos.get(algo)
    config, data = (
        (module.Config(), module.DATA)
        if preset_name == "default"
        else preset(preset_name, algo)
    )
    found = {}
    for owner, instance in ("data", data), ("config", config):
        cls: Any = type(instance)
        hints = typing.get_type_hints(cls, include_extras=True)
        for name, sentence in documented(cls).items():
            default = getattr(instance, name)
            found[name] = Setting(owner, hints[name], default, sentence)  # type: ignore
    hints = typing.get_type_hints(Run, include_extras=True)
    for field in dataclasses.fields(Run):
        if field.name in OWN:
            default = {} if field.name == "env_kwargs" else field.default
            sentence = documented(Run)[field.name]
            found[field.name] = Setting("run", hints[field.name], default, sentence)
    return found


def make(
    algo: str, env: str, given: Mapping[str, Any], preset_name: str = "default"
) -> Run:
    """The run of `algo` in `env` with the settings `given`, as text or as values."""
    if not isinstance(algo, str) or not isinstance(env, str):
        raise UserError(f"algo and env are names, got {algo!r} and {env!r}")
    try:
        known = known_settings(algo, preset_name)
    except ValueError as error:
        raise UserError(str(error)) from None
    faults = [fault(algo, name, x, known) for name, x in given.items()]
    faults = [wrong for wrong in faults if wrong]
    values = {k: converted(x, known[k].hint) for k, x in given.items() if k in known}
    exp_name = values.get("exp_name") or re.sub(r"[^A-Za-z0-9.]+", "-", f"{algo}_{env}")
    if not NAME.fullmatch(str(exp_name)):
        faults.append(
            f"exp_name is {exp_name!r}, but must be letters, digits, '.', '_' and '-', "
            "and begin with a letter or a digit"
        )
    if faults:
        raise UserError("; ".join(faults))
    return _assemble(algo, env, known, values | {"exp_name": exp_name})


def fault(algo: str, name: str, value: Any, known: Mapping[str, Setting]) -> str:
    """What is wrong with a setting of `algo`; empty if nothing is."""
    if name not in known:
        return f"{algo} has no setting {name!r}{suggestion(name, known)}"
    setting = known[name]
    rule = checks.broken_rule(converted(value, setting.hint), setting.hint)
    default = f"the default is {setting.default!r}"
    return rule and f"{name} is {value!r}, but must be {rule}; {default}"


def _assemble(algo: str, env: str, known: Mapping, values: Mapping) -> Run:
    parts: dict[str, dict] = {"run": {}, "data": {}, "config": {}}
    for name, setting in known.items():
        parts[setting.owner][name] = values.get(name, setting.default)
    module = algos.get(algo)
    data = type(module.DATA)(**parts["data"])
    run = Run(algo=algo, env=env, data=data, config=None, **parts["run"])
    if "total_updates" in parts["config"] and "total_updates" not in values:
        parts["config"]["total_updates"] = run.total_steps / data.steps_per_epoch
    return dataclasses.replace(run, config=module.Config(**parts["config"]))


def converted(value: Any, hint: Any) -> Any:
    """`value` as the type of `hint`; as it is, where it cannot be read as that."""
    if typing.get_origin(hint) is Annotated:
        hint, range_ = typing.get_args(hint)
        if range_.auto and value == "auto":
            return 0
    if typing.get_origin(hint) is tuple:
        items = _items(value) if isinstance(value, str) else value
        if isinstance(items, int) and not isinstance(items, bool):
            items = [items]  # one layer
        if not isinstance(items, list | tuple):
            return value
        inner = typing.get_args(hint)[0]
        return tuple(converted(item, inner) for item in items if item != "")
    if hint is dict and isinstance(value, str):
        with contextlib.suppress(ValueError):
            return parsed(value)
        return value
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        whole = hint is int and isinstance(value, float) and value.is_integer()
        return int(value) if whole else value
    return _from_text(value.strip(), hint)


def _items(text: str) -> list[str]:
    """Of a list, with or without its brackets."""
    text = text.strip()
    if text[:1] + text[-1:] in ("[]", "()"):
        text = text[1:-1]
    return text.split(",")


def _from_text(text: str, hint: Any) -> Any:
    if hint is bool:
        words = {"true": True, "yes": True, "on": True, "1": True}
        words |= {"false": False, "no": False, "off": False, "0": False}
        return words.get(text.lower(), text)
    if hint in (int, float):
        try:
            number = float(text)
        except ValueError:
            return text
        if hint is float:
            return number
        if not number.is_integer():
            return text
        # Exactly, where it is written so; 1e6 is a whole number too.
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else int(number)
    return text


def kind(hint: Any) -> str:
    """What a value of the hint looks like, for a help text."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is Literal:
        return "|".join(typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return "N,N,..."
    names = {int: "N", float: "X", bool: "[true|false]", str: "TEXT", dict: "YAML"}
    return names[hint]
