"""Several devices and several processes learn what a single one learns."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from launching import (
    HERE,
    JAXRL,
    ended,
    left_behind,
    none_left_behind,
    program,
    rank_of,
    run_of,
    start,
    train_words,
    trained,
)
from small_runs import table

from jaxrl.cli.main import main
from jaxrl.parallel import mpi
from jaxrl.parallel.devices import Devices, fingerprint
from jaxrl.processes import mpirun
from jaxrl.runs import checkpoint
from jaxrl.training.share import Share
from jaxrl.types import OffPolicy


def layouts(*pairs):
    ids = [f"{ranks} ranks, {devices} devices" for ranks, devices in pairs]
    return pytest.mark.parametrize(("ranks", "devices"), pairs, ids=ids)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process with one device learns, in double precision."""
    path = tmp_path_factory.mktemp("alone") / "double.npz"
    program("learn", path, 1, JAX_ENABLE_X64="1")
    return path


@pytest.fixture(scope="module")
def alone_in_single_precision(tmp_path_factory):
    path = tmp_path_factory.mktemp("alone") / "single.npz"
    program("learn", path, 1)
    return path


def assert_learns_the_same(alone, path, ranks, devices):
    program("learn", path / "a.npz", devices, ranks=ranks, JAX_ENABLE_X64="1")
    with np.load(alone) as one, np.load(path / "a.npz") as many:
        assert one.keys() == many.keys()
        for name in one:
            np.testing.assert_allclose(
                many[name], one[name], rtol=0, atol=1e-9, err_msg=name
            )


@layouts((1, 2), (2, 1))
def test_learners_that_share_a_batch_learn_the_same(alone, tmp_path, ranks, devices):
    assert_learns_the_same(alone, tmp_path, ranks, devices)


@pytest.mark.mpi
@layouts((2, 2), (3, 1), (3, 2))
def test_more_learners_that_share_a_batch_learn_the_same(
    alone, tmp_path, ranks, devices
):
    assert_learns_the_same(alone, tmp_path, ranks, devices)


@pytest.mark.mpi
@layouts((1, 2), (2, 1), (2, 2), (3, 1))
def test_in_single_precision_the_greedy_actions_agree(
    alone_in_single_precision, tmp_path, ranks, devices
):
    program("learn", tmp_path / "a.npz", devices, ranks=ranks)
    one, many = np.load(alone_in_single_precision), np.load(tmp_path / "a.npz")
    with one, many:
        for name in filter(lambda name: name.endswith(" acts"), one):
            np.testing.assert_allclose(
                many[name], one[name], rtol=0, atol=1e-3, err_msg=name
            )


@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives_return_the_same_on_every_rank(tmp_path, ranks):
    program("collect", tmp_path / "results", ranks=ranks)
    paths = [tmp_path / f"results.{rank}" for rank in range(ranks)]
    results = [json.loads(path.read_text()) for path in paths]
    samples = np.concatenate([np.arange(4.0) + 10 * r for r in range(ranks) if r != 1])
    total = ranks * (ranks - 1) // 2
    for found in results:
        kinds = (len, np.mean, np.std, np.min, np.max)
        np.testing.assert_allclose(found["stats"], [kind(samples) for kind in kinds])
        assert found["nothing"] == 0
        assert found["broadcast"] == {"a": [0, 1, 2], "b": [0.0]}
        assert found["sum"]["a"] == [i * ranks + total for i in range(3)]
        assert found["mean"]["b"] == [total / ranks]
        assert found["bcast_bytes"] == "from 0"
        assert found["allgather"] == ["x" * r for r in range(ranks)]
        assert found["bcast_int"] == 5
        assert found["allreduce_max"] == [ranks - 1, 0]


def test_means_keep_their_order_however_many_threads_compute_them():
    program("average", ranks=2, NPROC="4")


def test_one_process_needs_no_mpi():
    assert (mpi.rank(), mpi.size()) == (0, 1)
    assert mpi.broadcast({"a": 1}) == {"a": 1}
    assert mpi.allreduce_mean([np.float32(2)]) == [2]
    stats = mpi.statistics([1, 3])
    assert (stats.n, stats.mean, stats.std, stats.min, stats.max) == (2, 2, 1, 1, 3)
    assert "mpi4py.MPI" not in sys.modules


@pytest.mark.parametrize(
    ("ranks", "devices", "named"),
    [(3, 1, "rank 1 differ"), (2, 2, "rank 1, device 1 differ")],
)
@pytest.mark.mpi
def test_a_rank_that_differs_by_one_bit_is_named(tmp_path, ranks, devices, named):
    words = [sys.executable, str(HERE / "ranks.py"), "drift", str(tmp_path)]
    code, _, err = ended(start([*words, str(devices)], ranks))
    assert code == 1
    assert re.search(f"{named}.* step 144", err), err


def test_every_bit_changes_the_fingerprint():
    tree = {"w": np.linspace(-1, 1, 6, dtype=np.float32), "n": np.array(3)}
    known = fingerprint(tree)
    for place in range(6):
        for bit in range(32):
            other = tree["w"].copy()
            other.view(np.uint32)[place] ^= np.uint32(1 << bit)
            assert fingerprint(tree | {"w": other}) != known
    assert fingerprint(tree | {"w": tree["w"][::-1].copy()}) != known


@pytest.mark.parametrize(("ranks", "num_envs"), [(1, 1), (2, 1), (3, 2)])
def test_the_shares_of_all_ranks_add_up(ranks, num_envs):
    data = OffPolicy(num_envs=num_envs, batch_size=24, start_steps=20, update_every=8)
    shares = [Share(data, rank, ranks) for rank in range(ranks)]
    assert sum(share.batch_size for share in shares) == 24
    assert sum(share.split(10) for share in shares) == 10
    total_envs = shares[0].total_envs
    chosen_by_chance = sum(
        min(max(share.random_actions(taken), 0), num_envs)
        for taken in range(0, 48, total_envs)
        for share in shares
    )
    assert chosen_by_chance == 20
    assert shares[0].round_steps % total_envs == 0
    assert 8 <= shares[0].round_steps < 8 + total_envs
    assert shares[0].updates_per_round == shares[0].round_steps


def final_state(out):
    """Every number of the last checkpoint's state, and the policy."""
    saved, complaints = checkpoint.newest(run_of(out))
    assert not complaints
    policy = run_of(out) / "models" / "last" / "policy.npz"
    with np.load(policy) as arrays:
        return saved.content["state"] | dict(arrays)


def assert_same_run(one, two):
    assert table(run_of(one)) == table(run_of(two))
    first, second = final_state(one), final_state(two)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def test_a_run_in_two_processes_is_one_run_and_only_rank_0_prints(tmp_path):
    out = trained(tmp_path, "ppo", num_test_episodes=3)
    rows = table(run_of(tmp_path))
    assert [row["TotalEnvInteracts"] for row in rows] == ["48", "96", "144", "192"]
    assert len(re.findall("^epoch 4 ", out, re.MULTILINE)) == 1
    assert out.count("results in") == 1
    config = (run_of(tmp_path) / "config.yaml").read_text()
    assert "num_procs: 2" in config
    assert "threads: 1" in config
    words = train_words(tmp_path / "b", "ppo", num_test_episodes=3)
    code, out, err = ended(start(words, 2))  # a user's mpirun
    assert code == 0, err
    assert_same_run(tmp_path, tmp_path / "b")


def test_verbose_ranks_print_with_a_prefix(tmp_path):
    words = train_words(tmp_path, num_procs=2, steps=96)
    code, out, err = ended(start([*words, "--verbose-ranks"]))
    assert code == 0, err
    assert len(re.findall(r"^epoch 2 ", out, re.MULTILINE)) == 1
    assert len(re.findall(r"^\[1\] epoch 2 ", out, re.MULTILINE)) == 1


def test_auto_on_one_core_is_one_process(tmp_path):
    words = ["taskset", "-c", "0", *train_words(tmp_path, num_procs="auto", steps=48)]
    code, _, err = ended(start(words), 60)
    assert code == 0, err
    assert "num_procs: 1" in (run_of(tmp_path) / "config.yaml").read_text()


def test_ranks_collect_different_episodes(tmp_path):
    trained(tmp_path, max_ep_len=24)
    rows = table(run_of(tmp_path))
    assert all(float(row["StdEpRet"]) > 0 for row in rows)  # of two episodes a row


@pytest.mark.parametrize("algo", ["sac", pytest.param("ppo", marks=pytest.mark.mpi)])
def test_a_killed_rank_ends_all_and_resume_is_exact(tmp_path, algo):
    settings = {"steps": 480, "checkpoint_every": 1, "num_test_episodes": 1}
    trained(tmp_path / "a", algo, **settings)
    process = start(train_words(tmp_path / "b", algo, num_procs=2, **settings))
    progress = run_of(tmp_path / "b") / "progress.csv"
    while not progress.exists() or progress.read_text().count("\n") < 4:
        assert process.poll() is None
        time.sleep(0.02)
    rank = next(p for p in left_behind(tmp_path / "b") if rank_of(p) == "1")
    os.kill(int(rank), signal.SIGKILL)
    since = time.monotonic()
    code, _, err = ended(process)
    assert code not in (0, 2)
    assert time.monotonic() - since < 10
    assert re.search("rank 1.*SIGKILL", err)
    assert none_left_behind(tmp_path / "b", 5)
    resume = [*JAXRL, "resume", str(run_of(tmp_path / "b"))]
    code, _, err = ended(start(resume, 3))
    assert code == 2
    assert "3 processes" in err
    code, _, err = ended(start(resume))
    assert code == 0, err
    assert_same_run(tmp_path / "a", tmp_path / "b")


def test_impossible_numbers_of_devices_and_processes_are_refused(
    tmp_path, capsys, monkeypatch
):
    assert len(jax.devices()) == 2  # JAX has started
    words = train_words(tmp_path, devices=3, num_envs=4)[len(JAXRL) :]
    assert main(words) == 2
    assert "devices is 3" in capsys.readouterr().err
    words = train_words(tmp_path, devices=2, num_envs=3)[len(JAXRL) :]
    assert main(words) == 2
    assert "num_envs of 3" in capsys.readouterr().err
    monkeypatch.setattr(mpirun.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    assert main(train_words(tmp_path, num_procs=2)[len(JAXRL) :]) == 2
    assert "pip install 'jaxrl[mpi]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_by_default_all_devices_that_divide_the_work_are_used():
    assert Devices(0, 4, "num_envs").count == 2
    assert Devices(0, 3, "num_envs").count == 1


@pytest.fixture
def hosts(tmp_path):
    """mpirun, with a rank on each of them."""
    ours = [f"jaxrl{os.getpid()}{side}" for side in "ab"]
    made = f"""
        ip netns add {ours[0]} && ip netns add {ours[1]} &&
        ip link add left netns {ours[0]} type veth peer name right netns {ours[1]} &&
        ip -n {ours[0]} addr add 10.77.0.1/24 dev left &&
        ip -n {ours[1]} addr add 10.77.0.2/24 dev right &&
        ip -n {ours[0]} link set left up && ip -n {ours[0]} link set lo up &&
        ip -n {ours[1]} link set right up && ip -n {ours[1]} link set lo up
    """
    done = subprocess.run(["sh", "-c", made], capture_output=True, text=True)
    remove = f"ip netns del {ours[0]}; ip netns del {ours[1]}"
    if done.returncode:
        subprocess.run(["sh", "-c", remove], capture_output=True)
        pytest.skip(f"network namespaces cannot be made here: {done.stderr.strip()}")
    # Open MPI takes processes of one host name for neighbours, so each has its own.
    enter = [
        f"ip netns exec {name} unshare --uts sh -c 'hostname {side}; exec \"$@\"' sh"
        for name, side in zip(ours, "ab", strict=True)
    ]
    agent = tmp_path / "agent"
    agent.write_text(f'#!/bin/sh\nshift\nexec {enter[1]} sh -c "$*"\n')
    agent.chmod(0o755)
    yield (
        f"{enter[0]} {mpirun.mpirun()} --prtemca plm_ssh_agent {agent} "
        "--host 10.77.0.1:1,10.77.0.2:1 --mca btl tcp,self -n 2"
    )
    subprocess.run(["sh", "-c", remove])


@pytest.mark.mpi
def test_two_hosts_learn_what_two_processes_of_one_do(tmp_path, hosts):
    one_each = {"PRTE_MCA_rmaps_default_mapping_policy": "slot"}
    out = ended(start(["sh", "-c", f"{hosts} hostname"], **one_each))[1]
    assert sorted(out.split()) == ["a", "b"]
    trained(tmp_path / "a", "ppo")
    words = " ".join(train_words(tmp_path / "b", "ppo"))
    code, _, err = ended(start(["sh", "-c", f"{hosts} {words}"], **one_each))
    assert code == 0, err
    assert_same_run(tmp_path / "a", tmp_path / "b")
