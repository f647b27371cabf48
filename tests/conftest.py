"""Two devices for every test, and JAX at its strictest."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_nans", True)


@pytest.fixture
def key() -> jax.Array:
    return jax.random.key(0)
