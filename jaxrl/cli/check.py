"""`jaxrl check ./my_sac.py`."""

import os

from jaxrl import algos
from jaxrl.algos import user_files
from jaxrl.cli import options
from jaxrl.cli.stdout import say

# Two devices of a CPU; unoptimised programs compute the same and compile sooner.
XLA = "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"


def use_quick_devices() -> None:
    """Two devices of a CPU and quick compilation; before JAX is imported."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {XLA}".strip()
    os.environ["JAX_PLATFORMS"] = "cpu"


def main(arguments: list[str]) -> int:
    given = options.parser("check").parse(arguments)
    use_quick_devices()
    from jaxrl.runs import spec  # and only now JAX

    algo = algos.named(given.file)
    spec.make(algo, "any", {})  # refuses what is no algorithm, or no setting
    from jaxrl import contracts

    failed = 0
    for outcome in contracts.run(algos.get(algo)):
        if outcome.error is None:
            say(f"ok      {outcome.name}")
            continue
        failed += 1
        reason = user_files.explained(outcome.error, algo)
        say(f"FAILED  {outcome.name}{reason}", f"        look at: {outcome.hint}")
    say(
        f"{failed} contracts fail" if failed else "all contracts hold: train with it",
        *([] if failed else [f"  jaxrl train {given.file} --env ID"]),
    )
    return 1 if failed else 0
