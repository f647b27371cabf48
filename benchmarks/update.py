"""Speed of `update`, compared with the machine's matrix product.

    python benchmarks/update.py                 # one core, all six
    python benchmarks/update.py --cores 2 --algos sac td3

An off-policy update with batch 256 and layers of 256 and 256 is nearly all matrix
products. Its FLOPs divided by the rate of a 256x256 single-precision product (of NumPy
or XLA, the faster one), measured in turns with it, are the least time it could take. A
scan makes 50 updates with the state donated, compiled as in training. On-policy updates
use 4000 steps, with 80 full-batch iterations on the policy and 80 on the value
function, in one jitted call.
"""

import argparse
import functools
import os
import statistics
import sys
import time


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ["vpg", "trpo", "ppo", "ddpg", "td3", "sac"]
    parser.add_argument("--algos", nargs="+", choices=names, default=names)
    parser.add_argument("--cores", type=int, default=1, help="cores to pin to [1]")
    parser.add_argument("--rounds", type=int, default=15, help="repetitions [15]")
    return parser.parse_args()


ARGS = parse()
if ARGS.cores < 1 or ARGS.rounds < 1:
    sys.exit("--cores and --rounds must be at least 1")
if hasattr(os, "sched_setaffinity"):
    available = sorted(os.sched_getaffinity(0))
    if ARGS.cores > len(available):
        sys.exit(f"--cores is {ARGS.cores}, but this machine has {len(available)}")
    os.sched_setaffinity(0, available[: ARGS.cores])
# Threads are counted when the libraries load, so this comes before they do.
for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = str(ARGS.cores)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import records  # noqa: E402

from jaxrl import algos  # noqa: E402
from jaxrl.algos.presets import preset  # noqa: E402
from jaxrl.parallel.devices import Devices  # noqa: E402
from jaxrl.training.learner import one_update  # noqa: E402
from jaxrl.types import Box, EnvSpec, OnPolicy, Transition, identity  # noqa: E402

OBS, ACTION, BATCH, SCAN = 11, 3, 256, 50
SPEC = EnvSpec(OBS, Box((-1.0,) * ACTION, (1.0,) * ACTION))


def products(first: int, last: int, hidden: tuple[int, int] = (256, 256)) -> dict:
    """Multiply-adds per sample: forward, and backward to hidden or to all inputs."""
    layers = [first * hidden[0], hidden[0] * hidden[1], hidden[1] * last]
    return {"forward": sum(layers), "inner": sum(layers[1:]), "all": sum(layers)}


def gflop(algo: str) -> float:
    """GFLOP of one update, counting only the necessary matrix products."""
    actor = products(OBS, 2 * ACTION if algo == "sac" else ACTION)
    critic = products(OBS + ACTION, 1)
    count = 1 if algo == "ddpg" else 2
    in_actor_loss = count if algo == "sac" else 1  # critics
    target = actor["forward"] + count * critic["forward"]
    fit = count * (2 * critic["forward"] + critic["inner"])
    improve = 2 * actor["forward"] + actor["inner"]
    improve += in_actor_loss * (critic["forward"] + critic["all"])
    delay = 2 if algo == "td3" else 1
    return 2 * BATCH * (target + fit + improve / delay) / 1e9


def fake_batch(*lead: int) -> Transition:
    rng = np.random.default_rng(0)
    obs, next_obs = (rng.normal(size=(*lead, OBS)).astype(np.float32) for _ in "ab")
    action = rng.uniform(-1, 1, (*lead, ACTION)).astype(np.float32)
    reward = rng.normal(size=lead).astype(np.float32)
    terminated = rng.random(lead) < 0.01
    batch = Transition(obs, action, reward, next_obs, terminated, ~terminated & False)
    return jax.tree.map(jnp.asarray, batch)


def seconds(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


class Case:
    """One algorithm's compiled update and its state."""

    def __init__(self, name: str) -> None:
        self.name, algo = name, algos.get(name)
        self.off_policy = not isinstance(algo.DATA, OnPolicy)
        update = functools.partial(one_update(algo), pmean=identity)
        if self.off_policy:
            config, self.batch = algo.Config(), fake_batch(SCAN, BATCH)
            self.step = lambda state, batch: jax.lax.scan(update, state, batch)
        else:
            config, _ = preset("spinup", name)
            if name == "ppo":  # never stop early: all 80 iterations are timed
                config = type(config)(**vars(config) | {"target_kl": float("inf")})
            self.batch, self.step = fake_batch(4000, 1), update
        options = Devices(1, 1, "the batch").compiler_options
        self.step = jax.jit(self.step, donate_argnums=0, compiler_options=options)
        self.state = algo.init(jax.random.key(0), SPEC, config)
        self.compile_seconds = seconds(self.run)

    def run(self) -> None:
        self.state, _ = self.step(self.state, self.batch)
        jax.block_until_ready(self.state)


def sgemm_rate(size: int = 256, repeats: int = 200) -> float:
    """GFLOP/s of a float32 product of two square matrices: NumPy's or XLA's if faster.

    Which is faster depends on the processor. XLA's is compiled by the first call.
    """
    a, b = np.random.default_rng(0).normal(size=(2, size, size)).astype(np.float32)
    b /= size**0.5  # so that the products of many stay finite
    out = np.empty_like(a)

    def by_numpy() -> None:
        for _ in range(repeats):
            np.matmul(a, b, out=out)

    def by_xla() -> None:
        xla_products(a, b, repeats).block_until_ready()

    return 2 * size**3 * repeats / min(seconds(by_numpy), seconds(by_xla)) / 1e9


@jax.jit
def xla_products(a: jax.Array, b: jax.Array, repeats: int) -> jax.Array:
    """a times b, as often as `repeats`."""
    return jax.lax.fori_loop(0, repeats, lambda _, x: x @ b, a)


def main() -> None:
    cases = [Case(name) for name in ARGS.algos]
    sgemm_rate()
    rates, times, shares = [], *({case.name: [] for case in cases} for _ in "ts")
    # In turns, so that other load on the machine affects all alike.
    for _ in range(ARGS.rounds):
        for case in cases:
            rates.append(sgemm_rate())
            times[case.name].append(seconds(case.run))
            speed = SCAN * gflop(case.name) / times[case.name][-1]
            shares[case.name].append(100 * speed / rates[-1])
    rate = statistics.median(rates)
    spread = f"{min(rates):.0f} to {max(rates):.0f}"
    print(*records.origin().values(), sep="; ")
    print(f"{ARGS.cores} core(s), {ARGS.rounds} rounds, medians (fastest, slowest)")
    print(f"sgemm 256^3: {rate:.0f} GFLOP/s ({spread})\n")
    print("algo   one update, ms            compile, s   GFLOP/s   of sgemm")
    for case in cases:
        scale = 1e3 / (SCAN if case.off_policy else 1)
        low, mid, high = (
            scale * f(times[case.name]) for f in (min, statistics.median, max)
        )
        line = f"{case.name:5} {mid:8.2f} ({low:.2f}, {high:.2f})"
        line = f"{line:32} {case.compile_seconds:10.1f}"
        if case.off_policy:
            speed = 1e3 * gflop(case.name) / mid
            line += f" {speed:9.0f} {statistics.median(shares[case.name]):9.0f} %"
        print(line)


if __name__ == "__main__":
    main()
