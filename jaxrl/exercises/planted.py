"""Broken algorithms: jaxrl's own with one bug each, as replacements in their text."""

from pathlib import Path
from typing import NamedTuple

from jaxrl import algos


class Bug(NamedTuple):
    """A bug in an algorithm, and how it shows."""

    algo: str
    title: str
    task: str
    edits: dict[str, str]
    """What is replaced in the algorithm's file; the first part occurs once in it."""
    contracts: tuple[str, ...]
    """Contracts of `jaxrl.contracts` that a mended file must keep."""


BUGS = [
    Bug(
        algo="ddpg",
        title="broken DDPG: values that are far too high",
        task="""\
Find the bug in a DDPG whose values are far too high.

How it shows: in an environment with one step and the reward 1, the only value is 1,
but QVals climbs above 10 with gamma = 0.9. In Hopper, falling over seems to cost
nothing, and the policy never learns to stay upright.

The equations at the top of the file are right; one line below does not follow them.""",
        edits={
            "    return critics.bellman(batch, q, state.config.gamma)": (
                "    return batch.reward + state.config.gamma * q"
            ),
        },
        contracts=("probe constant", "truncation", "probe delayed"),
    ),
    Bug(
        algo="vpg",
        title="broken VPG: a policy that never changes",
        task="""\
Find the bug in a VPG whose policy never changes.

How it shows: LossPi is 0, DeltaLossPi and KL are 0, Entropy is constant, and the
return stays that of a random policy, while LossV falls as it should.

The loss is written with a ratio ρ = π / π_old, as in PPO, where π_old is the policy
before the step. There ρ is 1, and the gradient of ρ is that of log π.""",
        edits={
            "    return -jnp.mean(dist.log_prob(rollout.action) * advantage), dist": (
                "    log_prob = dist.log_prob(rollout.action)\n"
                "    old_log_prob = log_prob  # of the policy before the step\n"
                "    ratio = jnp.exp(log_prob - old_log_prob)\n"
                "    return -jnp.mean(ratio * advantage), dist"
            ),
            '    """−E[log π(a|s) · A]; also returns π."""': (
                '    """−E[ρ A], ρ = π(a|s) / π_old(a|s); also returns π."""'
            ),
            "actor      L_π = −E[log π(a|s) · A]                  one step": (
                "actor      L_π = −E[ρ A],  ρ = π(a|s) / π_old(a|s)   one step"
            ),
        },
        contracts=("learns, finitely", "probe chosen, discrete"),
    ),
    Bug(
        algo="sac",
        title="broken SAC: values that swing",
        task="""\
Find the bug in a SAC whose values swing.

How it shows: simple environments are solved, but in Hopper and Walker2d LossQ jumps,
Q1Vals overshoots, and with some seeds it grows without end. A smaller tau, which
should calm it, makes it worse.

Every function that the file imports is right.""",
        edits={
            "target=optim.polyak(state.target, critic.params, cfg.tau)": (
                "target=optim.polyak(critic.params, state.target, cfg.tau)"
            ),
        },
        contracts=("learns, finitely", "truncation", "probe both"),
    ),
]
HEADER = """\
# A broken copy of jaxrl's {algo}, for `jaxrl exercise`. One bug is in it.

"""


def text(bug: Bug) -> str:
    """The file of the algorithm with its bug."""
    path = Path(algos.__file__).with_name(f"{bug.algo}.py")
    found = path.read_text("utf-8")
    for right, wrong in bug.edits.items():
        if found.count(right) != 1:
            raise ValueError(f"{path} has not just one line {right!r}")
        found = found.replace(right, wrong)
    return HEADER.format(algo=bug.algo) + found
