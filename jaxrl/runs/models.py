"""Models: what `act` needs of a run's state, as arrays and JSON.

policy.npz is a policy that NumPy plays. Where that is not enough, for networks of a
user or an algorithm that acts in its own way, act.npz holds the arrays of the state
that `act` reads, and playing it needs JAX and the user's code.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import files
from jaxrl.errors import UserError
from jaxrl.policy import FILE_ERRORS, MAX_BYTES, Policy
from jaxrl.runs import arrays
from jaxrl.runs.reading import ARRAYS, MODEL, POLICY
from jaxrl.runs.spec import Run
from jaxrl.types import Algorithm, EnvSpec


def save(
    directory: Path,
    run: Run,
    spec: EnvSpec,
    policy: Policy | None,
    leaves: Mapping[str, np.ndarray] | None,
    step: int,
    obs_batches: int | None = None,
) -> None:
    """Replaces a model; a reader finds the old or the new one.

    `obs_batches` is how many its normaliser has seen, for who trains it further.
    """
    directory.parent.mkdir(exist_ok=True)
    meta: dict[str, Any] = {"algo": run.algo, "env": run.env, "step": step}
    meta |= {} if obs_batches is None else {"obs_batches": obs_batches}
    with files.replacing_directory(directory) as fresh:
        if policy is not None:
            dataclasses.replace(policy, action=spec.action).save(fresh / POLICY)
        if leaves is not None:
            own: dict[str, Any] = {"names": np.array(json.dumps([*leaves]))}
            own |= {f"leaf_{i}": x for i, x in enumerate(leaves.values())}
            np.savez(fresh / ARRAYS, **own)
        (fresh / MODEL).write_text(json.dumps(meta, indent=2) + "\n")


def arrays_for_acting(
    algo: Algorithm, spec: EnvSpec, state: Any
) -> dict[str, np.ndarray]:
    """The leaves of the state on which actions depend, by their names."""
    key, obs = jax.random.key(0), jnp.zeros((1, spec.obs_size), spec.obs_dtype)
    both = lambda state: (algo.act(state, obs), algo.act(state, obs, key))  # noqa: E731
    traced = jax.make_jaxpr(both)(state).jaxpr
    used = {id(x) for equation in traced.eqns for x in equation.invars}
    used |= {id(x) for x in traced.outvars}
    names = arrays.names(state)
    needed = [n for n, x in zip(names, traced.invars, strict=True) if id(x) in used]
    every = arrays.flatten(state)
    return {name: every[name] for name in needed}


class JaxPolicy:
    """The policy of a state, with the same calls as a `jaxrl.policy.Policy`."""

    def __init__(self, algo: Algorithm, spec: EnvSpec, state: Any) -> None:
        self._act, self._state = jax.jit(algo.act), state
        self._spec = spec

    @property
    def obs_size(self) -> int:
        """Length of an observation."""
        return self._spec.obs_size

    @property
    def action(self) -> Any:
        """The action space."""
        return self._spec.action

    def __call__(
        self, obs: np.ndarray, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """An exploring action with a generator, the greedy action without."""
        obs = np.asarray(obs, self._spec.obs_dtype)
        if obs.shape[-1:] != (self.obs_size,):
            raise ValueError(
                f"the policy expects observations [..., {self.obs_size}], "
                f"got shape {obs.shape}"
            )
        key = None if rng is None else jax.random.key(rng.integers(2**32))
        return self.action.scale(np.asarray(self._act(self._state, obs, key)))

    def save(self, path: str | Path) -> None:
        """Refuses: a file that NumPy plays cannot hold it."""
        raise UserError(
            f"{path} cannot be written: NumPy cannot play networks or an act of your "
            "own; jaxrl.load(directory) plays them with JAX"
        )


def load(
    directory: Path, run: Path, made: Run, spec: EnvSpec, networks: Any
) -> JaxPolicy:
    """The policy in a model's directory; `made` is the run that `run` describes."""
    algo = made.module
    config = made.config
    key = jax.random.key(0)
    shapes = jax.eval_shape(lambda: algo.init(key, spec, config, networks))
    path = directory / ARRAYS
    leaves = _read(path, run)
    blank = arrays.flatten(jax.tree.map(_zeros, shapes))
    if unknown := leaves.keys() - blank.keys():
        raise UserError(f"{path} does not fit the run's code: it has {unknown}")
    try:
        state = arrays.unflatten(shapes, blank | leaves)
    except arrays.Mismatch:
        raise UserError(
            f"{path} does not fit the run's networks: they have other shapes now"
        ) from None
    return JaxPolicy(algo, spec, state)


def _zeros(shape: jax.ShapeDtypeStruct) -> jax.Array:
    if jnp.issubdtype(shape.dtype, jax.dtypes.prng_key):
        return jnp.broadcast_to(jax.random.key(0), shape.shape)
    return jnp.zeros(shape.shape, shape.dtype)


def _read(path: Path, run: Path) -> dict[str, np.ndarray]:
    """No code is run, and no link is followed out of the run's directory."""
    try:
        with (
            files.open_regular(path, files.MODEL, run) as file,
            np.load(file, allow_pickle=False) as archive,
        ):
            if sum(part.file_size for part in archive.zip.infolist()) > MAX_BYTES:
                raise ValueError
            names = json.loads(str(archive["names"]))
            return {name: archive[f"leaf_{i}"] for i, name in enumerate(names)}
    except OSError as error:
        raise UserError(f"cannot read {path}: {files.reason(error)}") from None
    except FILE_ERRORS:
        raise UserError(f"{path} is damaged or not a model") from None
