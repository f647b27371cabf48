"""Environments with known solutions, solved by every algorithm."""

import jax.numpy as jnp
import pytest
from support import algorithms, is_on_policy

from jaxrl.contracts import probes
from jaxrl.envs.jax import PROBES


@algorithms
@pytest.mark.parametrize("probe", PROBES)
def test_every_algorithm_solves_the_probe(algo, probe):
    probes.solves(algo, probe)


@algorithms
@pytest.mark.parametrize("probe", probes.CHOICES)
def test_on_policy_algorithms_solve_the_discrete_probe(algo, probe):
    if not is_on_policy(algo):
        pytest.skip("supports Box actions only")
    probes.solves_discrete(algo, probe)


@algorithms
def test_the_values_of_probes_are_those_of_the_critic(algo, key):
    """A probe leaves out values that it cannot read; of ours it reads all."""
    state = algo.init(key, PROBES["both"].spec)
    assert probes.value(algo, state, jnp.zeros((1, 1))).shape == (1,)
