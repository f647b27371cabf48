"""Two devices for every test, and JAX at its strictest."""

import os

# Unoptimised programs compute the same and compile in half the time.
os.environ["XLA_FLAGS"] = (
    "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"
)

import signal

import jax
import pytest

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup takes away
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key() -> jax.Array:
    return jax.random.key(0)


@pytest.fixture(autouse=True, scope="module")
def bounded_memory():
    """Thousands of compiled programs in one process exhaust its memory mappings."""
    yield
    jax.clear_caches()
