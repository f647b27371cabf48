"""Starting with the parameters and normalisers of another run: `--init_from DIR`.

A checkpoint has all networks; a model has the policy and its observation normaliser.
Steps, random numbers and learning-rate schedules are the new run's own, and so are the
optimisers' states, unless `--init_optimizer` asks for them. config.yaml records what
was taken with a SHA-256, so that the run is repeated only from the same parameters.
"""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl import files
from jaxrl.errors import UserError, differences
from jaxrl.parallel import mpi
from jaxrl.policy import Policy
from jaxrl.runs import arrays, checkpoint, directory
from jaxrl.runs.checkpoint import Saved
from jaxrl.runs.reading import CONFIG, MODEL
from jaxrl.runs.spec import Run
from jaxrl.training.acting import policy_leaves
from jaxrl.training.setup import AnySetup

Leaves = Mapping[str, np.ndarray]

WHERE = "give a run's directory, or its models/NAME or checkpoints/N"
OWN = (".key", ".config", ".updates")  # parts of a state that every run has for itself
NAMED = ("algo", "env", "hidden", "activation", "normalize_obs", "normalize_returns")
SHOWN = 3  # parameters that do not fit
# What a file from elsewhere can raise.
ODD = (ValueError, TypeError, AttributeError, RecursionError, OverflowError)


class Source(NamedTuple):
    """What was found: the state of a checkpoint, or a policy."""

    path: Path
    step: int
    settings: Mapping[str, Any]
    state: Leaves | None = None
    policy: Policy | None = None
    obs_batches: int = 1
    """Batches that the policy's observation normaliser has seen."""
    actions: str = ""
    """The action space there, if it is known."""
    notes: tuple[str, ...] = ()


def apply(setup: AnySetup) -> tuple[AnySetup, list[str]]:
    """The setup that starts as `init_from` asks, and what the user should know.

    Rank 0 reads; the others get its state before the first step.
    """
    run = setup.run
    if run.init_optimizer and not run.init_from:
        raise UserError("--init_optimizer needs --init_from DIR")
    if not run.init_from or mpi.rank():
        return setup, []
    source = _find(run)
    leaves = arrays.flatten(setup.init_state())
    taken = _taken(setup, source, leaves)
    found = {"path": str(source.path), "step": source.step, "sha256": _digest(taken)}
    if run.init_source.get("sha256", found["sha256"]) != found["sha256"]:
        raise UserError(
            f"{source.path} has other parameters than when the run was started; name "
            "others with --init_from to start a different run"
        )
    whole = {**leaves, **taken}
    shapes = setup.state_shapes
    recorded = dataclasses.replace(run, init_source=found)
    setup = setup.starting_with(lambda: arrays.unflatten(shapes, whole), recorded)
    said = f"the parameters are those of {source.path} at step {source.step}"
    return setup, [said, *source.notes]


# Reading


def _find(run: Run) -> Source:
    """Where the run recorded it if that is still there, or else where it asks."""
    recorded = str(run.init_source.get("path", run.init_from))
    found = recorded if os.path.isdir(recorded) else run.init_from
    if not os.path.isdir(found):  # False also for what cannot be a path
        raise UserError(
            f"init_from is {run.init_from!r}, but there is no such directory; {WHERE}"
        )
    path = _without_links(Path(os.path.abspath(found)))
    if (path / CONFIG).is_file():
        return _from_run(path, run.init_optimizer)
    if path.parent.name == "checkpoints" and path.name.isdecimal():
        place, numbers = path.parent.parent, [int(path.name)]
        saved, complaints = checkpoint.newest(place, rows=False, numbers=numbers)
        if saved is None:
            raise UserError(f"{path} cannot be used: {'; '.join(complaints)}")
        return _from_checkpoint(place, saved)
    if (path / MODEL).is_file():
        return _from_model(path, run.init_optimizer, path)
    raise UserError(f"init_from is {run.init_from!r}, which holds no run; {WHERE}")


def _without_links(path: Path) -> Path:
    """The path itself; refuses a part of a run that is a link to outside of the run."""
    real, run = path.resolve(), path.parent.parent
    is_part = path.parent.name in ("checkpoints", "models")
    if is_part and real.parent.parent != run.resolve():
        raise UserError(f"{path} is a link to outside of its run; {WHERE}")
    return real


def _from_run(path: Path, optimizer: bool) -> Source:
    """Its newest good checkpoint, or else its last model."""
    saved, complaints = checkpoint.newest(path, rows=False)
    if saved:
        return _from_checkpoint(path, saved)._replace(notes=tuple(complaints))
    if not (path / "models" / "last" / MODEL).is_file():
        reasons = [*complaints, "and no model"] if complaints else []
        why = "; ".join(reasons) or "neither a checkpoint nor a model"
        raise UserError(f"init_from is {str(path)!r}, but it has {why}")
    found = _from_model(path / "models" / "last", optimizer, path)
    return found._replace(notes=(*complaints, *found.notes))


def _from_checkpoint(run: Path, saved: Saved) -> Source:
    path = checkpoint.checkpoint_path(run, saved.number)
    state = saved.content.get("state")
    values = state.values() if isinstance(state, dict) else [None]
    if not all(isinstance(value, np.ndarray) for value in values):
        raise UserError(f"{path} holds no state of an algorithm")
    step, settings = saved.content["env_steps"], directory.settings_in(saved.config)
    spaces = saved.content.get("spaces")
    actions = str(spaces.get("actions", "")) if isinstance(spaces, dict) else ""
    return Source(path, step, settings, state=state, actions=actions)


def _from_model(path: Path, optimizer: bool, inside: Path) -> Source:
    if optimizer:
        raise UserError(
            f"{path} is a model, which has no optimiser; --init_optimizer needs a run "
            "with a checkpoint"
        )
    try:
        policy = Policy.load(path / "policy.npz", inside=inside)
        about = json.loads(files.read_text(path / MODEL, inside=inside))
        step, batches = (int(about.get(x, 1)) for x in ("step", "obs_batches"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {files.reason(error)}") from None
    except ODD as error:
        raise UserError(f"{path} holds no model that can be used: {error}") from None
    text = ""
    if (path.parent.parent / CONFIG).is_file():
        text = directory.config_text(path.parent.parent)
    note = f"{path} has a policy only; all other networks are newly initialised"
    return Source(
        path,
        step,
        directory.settings_in(text),
        policy=policy,
        obs_batches=min(max(batches, 1), 2**30),
        actions=str(policy.action or ""),
        notes=(note,),
    )


# Fitting


def _taken(setup: AnySetup, source: Source, leaves: Leaves) -> Leaves:
    """Those of the new state's leaves that come from the source; refuses others."""
    run = setup.run
    if source.state is not None:
        state, optimizer = source.state, run.init_optimizer
        wanted = {name: leaves[name] for name in _parameters(leaves, optimizer)}
        found = {name: state[name] for name in _parameters(state, optimizer)}
    else:
        assert source.policy is not None
        made = setup.init_state()
        found = policy_leaves(made, leaves, source.policy, source.obs_batches)
        wanted = {name: leaves[name] for name in found if name in leaves}
    faults = [*_other_actions(source.actions, str(setup.spec.action))]
    faults += _faults(wanted, found)
    here = directory.settings_in(directory.config_yaml(directory.settings(run)))
    named = [{k: x[k] for k in NAMED if k in x} for x in (source.settings, here)]
    changed = differences(*named) if named[0] else []
    if faults or named[0].get("activation") != named[1].get("activation"):
        shown = [*faults[:SHOWN], *changed]
        raise UserError(
            f"{source.path} does not fit this run: {'; '.join(shown)}; choose the same "
            "networks and spaces"
        )
    return found


def _other_actions(there: str, here: str) -> Iterable[str]:
    """A difference that shapes may not show: two and three choices, or five."""
    # Bounds and the first number of a choice do not change what the networks mean.
    one, two = (re.split(r"(?:, )?\b(?:start|low)=", x)[0] for x in (there, here))
    if there and one != two:
        yield f"the action space is {there} there and {here} here"


def _parameters(names: Iterable[str], optimizer: bool) -> list[str]:
    """What learning has changed, with or without the states of the optimisers."""
    return [
        name
        for name in names
        if not name.startswith(OWN) and (optimizer or ".opt_state" not in name)
    ]


def _faults(wanted: Leaves, found: Leaves) -> Iterable[str]:
    for name in sorted({*wanted, *found}):
        one, two = (_shape(side.get(name)) for side in (found, wanted))
        if one != two:
            yield f"{name.lstrip('.')} is {one} there and {two} here"
        elif not np.isfinite(found[name]).all():
            yield f"{name.lstrip('.')} is not finite"


def _shape(value: Any) -> str:
    if value is None:
        return "missing"
    return f"{value.dtype.name}{list(value.shape)}"


def _digest(leaves: Leaves) -> str:
    """Of names, shapes and values."""
    total = hashlib.sha256()
    for name in sorted(leaves):
        value = np.ascontiguousarray(leaves[name])
        total.update(f"{name} {value.dtype.name} {value.shape} ".encode())
        total.update(value.tobytes())
    return total.hexdigest()
