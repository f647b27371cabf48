"""Programs that the tests start in several processes: `python ranks.py NAME ...`."""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import algos
from jaxrl.parallel import mpi
from jaxrl.parallel.devices import Devices, set_up
from jaxrl.runs import arrays

UPDATES = 20
BATCH = 24  # over one, two, three, four and six learners


def learn(out: str, devices: str) -> None:
    """Twenty updates of all six on the same batches, cut over ranks and devices."""
    from support import SPEC, fake_batch, is_on_policy, small_config

    set_up(int(devices))
    found = {}
    for name in algos.NAMES:
        algo = algos.get(name)
        axis = 1 if is_on_policy(algo) else 0
        state = algo.init(jax.random.key(0), SPEC, small_config(algo))
        shared = Devices(int(devices), BATCH // mpi.size(), "the batch")
        lead = (6, BATCH) if axis else (BATCH,)
        keys = jax.random.split(jax.random.key(1), UPDATES)
        batches = [own(fake_batch(algo, key, lead=lead), axis) for key in keys]
        program = shared.compile(algo.update, state, batches[0], axis)
        state = shared.replicate(state)
        for batch in batches:
            state, _, prints = program(state, shared.split(batch, axis))
            if prints is not None:
                mpi.refuse_drift(np.atleast_1d(prints), f"of {name}")
        state = shared.single(state)
        flat = arrays.flatten((state.actor, state.critic))
        found |= {f"{name}{leaf}": value for leaf, value in flat.items()}
        obs = np.linspace(-2, 2, 30).reshape(10, 3)
        found[f"{name} acts"] = np.asarray(algo.act(state, obs))
    if mpi.rank() == 0:
        np.savez(out, **found)


def own(batch, axis):
    """The part of a batch that is for this rank."""
    cut = lambda x: np.split(np.asarray(x), mpi.size(), axis)[mpi.rank()]  # noqa: E731
    return jax.tree.map(cut, batch)


def collect(out: str) -> None:
    """What the collectives return; rank 1 has no samples."""
    rank = mpi.rank()
    samples = [] if rank == 1 else np.arange(4.0) + 10 * rank
    stats = mpi.statistics(samples)
    tree = {"a": np.arange(3) + rank, "b": [np.float32(rank)]}
    rows = np.full((2, 3), rank, np.float32)
    side_by_side = mpi.gather(rows)
    back = mpi.scatter(side_by_side, rows.shape, rows.dtype)
    assert np.array_equal(back, rows)
    found = {
        "size": mpi.size(),
        "stats": [stats.n, stats.mean, stats.std, stats.min, stats.max],
        "nothing": mpi.statistics([]).n,
        "broadcast": listed(mpi.broadcast(tree)),
        "sum": listed(mpi.allreduce_sum(tree)),
        "mean": listed(mpi.allreduce_mean(tree)),
        "bcast_bytes": mpi.bcast_bytes(b"from 0" if rank == 0 else b"no").decode(),
        "allgather": [message.decode() for message in mpi.allgather(b"x" * rank)],
        "bcast_int": mpi.bcast_int(rank + 5),
        "allreduce_max": mpi.allreduce_max(rank, -rank),
    }
    Path(f"{out}.{rank}").write_text(json.dumps(found))


def average() -> None:
    """Means that do not depend on each other, ready in an order of each rank's own."""

    def twelve(x: jax.Array) -> jax.Array:
        pmean, found = mpi.ordered_pmean(), []
        for i in range(12):
            y = x
            for _ in range((7 * i + 2 * mpi.rank()) % 5 + 1):
                y = jnp.tanh(y @ x + i)
            found.append(pmean(0 * y + i + mpi.rank()))
        return jnp.stack(found)

    program = jax.jit(twelve)
    for _ in range(50):
        means = program(np.full((300, 300), 0.01, np.float32))
        expected = np.arange(12)[:, None, None] + (mpi.size() - 1) / 2
        np.testing.assert_allclose(means - expected, 0)


def log(out: str, fault: str = "") -> None:
    """A user's loop on every rank; ranks store different names, rank 1 no returns."""
    import jaxrl
    from jaxrl.errors import UserError

    rank = mpi.rank()
    with jaxrl.Logger(out, {"lr": 0.1}) as log:
        for epoch in range(2):
            log.store(EpRet=[] if rank == 1 else [rank, rank + 1])
            log.store({f"rank/{rank}": epoch})
            stats = log.stats("EpRet")
            if fault == "error" and rank == 1:
                raise RuntimeError("no more")
            row = log.dump(step=10 * (epoch + 1))
            log.save_model("last", {"rank": np.array(rank)})
    expected = [x for r in range(mpi.size()) if r != 1 for x in (r, r + 1)]
    assert stats.n == len(expected)
    np.testing.assert_allclose(
        [stats.mean, stats.std], [np.mean(expected), np.std(expected)]
    )
    assert row[f"rank/{mpi.size() - 1}"] == 1
    try:
        jaxrl.Logger(out)
    except UserError as error:
        assert "overwrite" in str(error)  # noqa: PT017
    else:
        raise AssertionError


def listed(tree):
    return jax.tree.map(lambda x: np.asarray(x).tolist(), tree)


def drift(out: str, devices: str) -> None:
    """In the second epoch one bit of rank 1's parameters is flipped."""
    from jaxrl.runs import spec
    from jaxrl.training import loop, train

    settings = {"steps": 192, "steps_per_epoch": 48, "hidden": "8", "out": out}
    settings |= {"devices": devices, "num_envs": devices}
    update = loop.update

    def flipped(training):
        if training.setup.progress.env_steps == 144 and mpi.rank() == 1:
            leaves, structure = jax.tree.flatten(training.state)
            place = next(i for i, x in enumerate(leaves) if x.size == 8)
            shards = [np.array(s.data) for s in leaves[place].addressable_shards]
            shards[-1].view(np.uint32).ravel()[3] ^= 1
            placed = [
                jax.device_put(x, s.device)
                for x, s in zip(shards, leaves[place].addressable_shards, strict=True)
            ]
            leaves[place] = jax.make_array_from_single_device_arrays(
                leaves[place].shape, leaves[place].sharding, placed
            )
            training.state = jax.tree.unflatten(structure, leaves)
        update(training)

    loop.update = flipped
    train.train(spec.make("vpg", "Pendulum-v1", settings), screen=False)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
