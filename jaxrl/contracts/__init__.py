"""The contracts of an algorithm: what training relies on, for jaxrl's own and a user's.

The tests run them on all six, and `jaxrl check` on a user's file. Two devices must
exist; `XLA_FLAGS=--xla_force_host_platform_device_count=2` makes two of a CPU.
"""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

from jaxrl.contracts import acting, probes, updates
from jaxrl.contracts.samples import is_on_policy
from jaxrl.types import Algorithm


class Contract(NamedTuple):
    """A check that raises where it fails, and where to look then."""

    check: Callable[[Algorithm], None]
    hint: str


CONTRACTS = {
    "state keeps its form": Contract(
        updates.keeps_shapes, "cast to the old dtype; give init's arrays a dtype"
    ),
    "follows x64": Contract(
        updates.follows_precision, "write float instead of jnp.float32"
    ),
    "learns, finitely": Contract(
        updates.learns_finitely, "the losses, and what is put into the state"
    ),
    "pure": Contract(
        updates.is_pure, "draw by state.key; no globals, no NumPy random numbers"
    ),
    "runs without jit": Contract(
        updates.runs_without_jit, "no side effects, no branches on traced values"
    ),
    "compiles once": Contract(
        updates.compiles_once, "a static field or a Python number must not change"
    ),
    "donation": Contract(
        updates.accepts_donation, "no two parts of the state may share an array: copy"
    ),
    "vmap over seeds": Contract(
        updates.maps_over_seeds, "no Python branches on values, no fixed batch axis"
    ),
    "vmap over settings": Contract(
        updates.maps_over_settings, "take settings from state.config, as traced values"
    ),
    "scan": Contract(updates.runs_in_a_scan, "the state must keep its form"),
    "two devices": Contract(
        updates.splits_over_devices,
        "average every gradient and statistic with pmean; draw noise by noise.normal",
    ),
    "truncation": Contract(
        updates.bootstraps, "bootstrap from next_obs unless terminated"
    ),
    "act": Contract(acting.acts_greedily_or_explores, "use the key, and only the key"),
    "act on one": Contract(acting.acts_for_one_or_many, "use axis -1, not axis 1"),
    "actions in bounds": Contract(acting.acts_within_bounds, "clip or squash them"),
    "discrete actions": Contract(
        acting.takes_or_refuses_discrete, "checks.spec(spec, name, needs='bounded')"
    ),
    "init": Contract(acting.init_depends_on_key, "draw everything by the key"),
    "init under jit": Contract(acting.init_runs_under_jit, "use jnp, not NumPy"),
}
PROBE_HINTS = {
    "constant": "the critic's loss: its sign, its target",
    "observed": "the critic's inputs",
    "delayed": "discounting and bootstrapping",
    "chosen": "the policy's gradient: its sign, the sign of the advantage",
    "both": "the policy's inputs",
}


def contracts(algo: Algorithm) -> dict[str, Contract]:
    """All that apply to an algorithm, by name."""
    found = dict(CONTRACTS)
    for name, hint in PROBE_HINTS.items():
        check = functools.partial(probes.solves, probe=name)
        found[f"probe {name}"] = Contract(check, hint)
    for name in probes.CHOICES if is_on_policy(algo) else ():
        check = functools.partial(probes.solves_discrete, probe=name)
        found[f"probe {name}, discrete"] = Contract(check, PROBE_HINTS[name])
    return found


class Outcome(NamedTuple):
    """The result of one contract; `error` is None where it holds."""

    name: str
    error: Exception | None
    hint: str


def run(algo: Algorithm) -> Iterator[Outcome]:
    """Every contract on the algorithm."""
    for name, (check, hint) in contracts(algo).items():
        try:
            check(algo)
        except Exception as error:  # whatever the algorithm raises
            yield Outcome(name, error, hint)
        else:
            yield Outcome(name, None, hint)
