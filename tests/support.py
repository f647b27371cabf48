"""What several tests need: the six algorithms, small settings, made-up batches."""

import pytest

from jaxrl import algos
from jaxrl.contracts.samples import SPEC as SPEC
from jaxrl.contracts.samples import fake_batch as fake_batch
from jaxrl.contracts.samples import is_on_policy as is_on_policy
from jaxrl.contracts.samples import leaves as leaves
from jaxrl.contracts.samples import small_config as small_config

algorithms = pytest.mark.parametrize(
    "algo", [algos.get(name) for name in algos.NAMES], ids=algos.NAMES
)
