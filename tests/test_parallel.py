"""Several devices and several processes learn what one would; one's end is all's."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from test_resume import table

from jaxrl.cli.main import main
from jaxrl.parallel import mpi
from jaxrl.parallel.devices import Devices, fingerprint
from jaxrl.processes import mpirun
from jaxrl.runs import checkpoint, reading
from jaxrl.training.share import Share
from jaxrl.types import OffPolicy

HERE = Path(__file__).parent
JAXRL = [sys.executable, "-m", "jaxrl"]
RANK = b"OMPI_COMM_WORLD_RANK="


def start(words, ranks=1, **environment):
    """A program in so many processes, as a user would start it."""
    known_here = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    known_here["PYTHONPATH"] = str(HERE)
    known = mpirun.environment_for(threads=1) | known_here
    launcher = [mpirun.mpirun(), "-n", str(ranks)] if ranks > 1 else []
    return subprocess.Popen(
        [*launcher, *words],
        env=known | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process, seconds=240):
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out, err


def program(name, *words, ranks=1, **environment):
    words = [sys.executable, str(HERE / "ranks.py"), name, *map(str, words)]
    code, out, err = ended(start(words, ranks, **environment))
    assert code == 0, out + err


def left_behind(mark):
    """Processes whose command line names this directory."""
    found = subprocess.run(["pgrep", "-f", str(mark)], capture_output=True, text=True)
    return found.stdout.split()


def none_left_behind(mark, seconds):
    until = time.monotonic() + seconds
    while left_behind(mark):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


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
def test_cut_over_learners_a_batch_teaches_the_same(alone, tmp_path, ranks, devices):
    assert_learns_the_same(alone, tmp_path, ranks, devices)


@pytest.mark.mpi
@layouts((2, 2), (3, 1), (3, 2))
def test_cut_over_more_learners_too(alone, tmp_path, ranks, devices):
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
def test_the_tools_say_the_same_to_every_rank(tmp_path, ranks):
    program("say", tmp_path / "said", ranks=ranks)
    said = [json.loads((tmp_path / f"said.{r}").read_text()) for r in range(ranks)]
    samples = np.concatenate([np.arange(4.0) + 10 * r for r in range(ranks) if r != 1])
    total = ranks * (ranks - 1) // 2
    for found in said:
        kinds = (len, np.mean, np.std, np.min, np.max)
        np.testing.assert_allclose(found["stats"], [kind(samples) for kind in kinds])
        assert found["nothing"] == 0
        assert found["broadcast"] == {"a": [0, 1, 2], "b": [0.0]}
        assert found["sum"]["a"] == [i * ranks + total for i in range(3)]
        assert found["mean"]["b"] == [total / ranks]
        assert found["told"] == "from 0"
        assert found["said"] == ["x" * r for r in range(ranks)]
        assert found["first"] == 5
        assert found["greatest"] == [ranks - 1, 0]


def test_means_keep_their_order_however_many_threads_compute_them():
    program("average", ranks=2, NPROC="4")


def test_alone_the_tools_need_no_mpi():
    assert (mpi.rank(), mpi.size()) == (0, 1)
    assert mpi.broadcast({"a": 1}) == {"a": 1}
    assert mpi.allreduce_mean([np.float32(2)]) == [2]
    stats = mpi.statistics([1, 3])
    assert (stats.n, stats.mean, stats.std, stats.min, stats.max) == (2, 2, 1, 1, 3)
    assert "mpi4py.MPI" not in sys.modules


@pytest.mark.parametrize(
    ("ranks", "devices", "named"),
    [(3, 1, "of rank 1 differ"), (2, 2, "of rank 1, device 1 differ")],
)
@pytest.mark.mpi
def test_a_bit_that_drifts_is_found_and_named(tmp_path, ranks, devices, named):
    words = [sys.executable, str(HERE / "ranks.py"), "drift", str(tmp_path)]
    code, _, err = ended(start([*words, str(devices)], ranks))
    assert code == 1
    assert f"the parameters {named} from the others' at step 144" in err


def test_a_fingerprint_knows_every_bit():
    tree = {"w": np.linspace(-1, 1, 6, dtype=np.float32), "n": np.array(3)}
    known = fingerprint(tree)
    for place in range(6):
        for bit in range(32):
            other = tree["w"].copy()
            other.view(np.uint32)[place] ^= np.uint32(1 << bit)
            assert fingerprint(tree | {"w": other}) != known
    assert fingerprint(tree | {"w": tree["w"][::-1].copy()}) != known


@pytest.mark.parametrize(("ranks", "num_envs"), [(1, 1), (2, 1), (3, 2)])
def test_the_shares_of_all_ranks_are_the_whole(ranks, num_envs):
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
    assert shares[0].updates_per_round % total_envs == 0
    assert 8 <= shares[0].updates_per_round < 8 + total_envs


# Runs


def train_words(out, algo="vpg", env="Pendulum-v1", **settings):
    small = {"hidden": "8", "steps_per_epoch": 48, "steps": 192, "out": str(out)}
    if algo == "ppo":
        small["minibatches"] = 2
    if algo in ("ddpg", "td3", "sac"):
        small |= {"start_steps": 20, "update_after": 20, "update_every": 8}
        small |= {"batch_size": 24, "max_ep_len": 30, "replay_size": 100}
    words = [*JAXRL, "train", algo, "--env", env, "--exp_name", "x"]
    for name, value in (small | settings).items():
        words += [f"--{name}", str(value)]
    return words


def run_of(out, seed=0):
    return out / "x" / f"x_s{seed}"


def trained(out, algo="vpg", ranks=2, **settings):
    code, said, err = ended(start(train_words(out, algo, num_procs=ranks, **settings)))
    assert code == 0, err
    return said


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
    said = trained(tmp_path, "ppo", num_test_episodes=3)
    rows = table(run_of(tmp_path))
    assert [row["TotalEnvInteracts"] for row in rows] == ["48", "96", "144", "192"]
    assert len(re.findall("^epoch 4 ", said, re.MULTILINE)) == 1
    assert said.count("results in") == 1
    config = (run_of(tmp_path) / "config.yaml").read_text()
    assert "num_procs: 2" in config
    assert "threads: 1" in config
    words = train_words(tmp_path / "b", "ppo", num_test_episodes=3)
    code, said, err = ended(start(words, 2))  # a user's mpirun
    assert code == 0, err
    assert_same_run(tmp_path, tmp_path / "b")


def test_the_other_ranks_speak_with_a_prefix_if_asked_to(tmp_path):
    words = train_words(tmp_path, num_procs=2, steps=96)
    code, said, err = ended(start([*words, "--verbose-ranks"]))
    assert code == 0, err
    assert len(re.findall(r"^epoch 2 ", said, re.MULTILINE)) == 1
    assert len(re.findall(r"^\[1\] epoch 2 ", said, re.MULTILINE)) == 1


def test_auto_on_one_core_is_one_process(tmp_path):
    words = ["taskset", "-c", "0", *train_words(tmp_path, num_procs="auto", steps=48)]
    code, _, err = ended(start(words), 60)
    assert code == 0, err
    assert "num_procs: 1" in (run_of(tmp_path) / "config.yaml").read_text()


def test_ranks_live_through_different_episodes(tmp_path):
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
    assert "rank 1" in err
    assert "was killed by SIGKILL" in err
    assert none_left_behind(tmp_path / "b", 5)
    resume = [*JAXRL, "resume", str(run_of(tmp_path / "b"))]
    code, _, err = ended(start(resume, 3))
    assert code == 2
    assert "there are 3 processes" in err
    code, _, err = ended(start(resume))
    assert code == 0, err
    assert_same_run(tmp_path / "a", tmp_path / "b")


def rank_of(process):
    try:
        words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    told = [w.partition(b"=")[2].decode() for w in words if w.startswith(RANK)]
    return told[0] if told else None


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ("raises", "jaxrl: rank 1: .*a stone on the way"),
        pytest.param(
            "exits",
            r"jaxrl: rank 1: the process was left by exit\(0\)",
            marks=pytest.mark.mpi,
        ),
        ("sleeps", "jaxrl: (rank 0: )?rank 1 has stood still for more than 6 s"),
        pytest.param("vanishes", "rank 1 .*without a word", marks=pytest.mark.mpi),
        pytest.param("is killed", "rank 1 .*SIGKILL", marks=pytest.mark.mpi),
        pytest.param("stands", "rank 1 has stood still", marks=pytest.mark.mpi),
    ],
)
def test_one_rank_in_trouble_ends_all_and_is_named(tmp_path, trouble, told):
    settings = {"steps": 10**6, "env_kwargs": f"{{trouble: {trouble}}}"}
    words = train_words(tmp_path, env="own_envs:Trouble-v0", num_procs=2, **settings)
    process = start(words)
    code, _, err = ended(process, 60)
    assert code not in (0, 2)
    assert re.search(told, err, re.DOTALL), err
    assert "\0" not in err
    assert none_left_behind(tmp_path, 5)
    state = reading.record(run_of(tmp_path)).state
    assert state == ("failed" if trouble == "raises" else "interrupted")


@pytest.mark.mpi
def test_rank_0_is_watched_too(tmp_path):
    settings = {"steps": 10**6, "env_kwargs": "{trouble: stands, rank: 0}"}
    words = train_words(tmp_path, env="own_envs:Trouble-v0", num_procs=3, **settings)
    code, _, err = ended(start(words), 60)
    assert code not in (0, 2)
    assert "jaxrl: rank 1: rank 0 has stood still" in err
    assert none_left_behind(tmp_path, 5)


def begun(words, out, ranks=1):
    """A run under way, past its first row."""
    process = start(words, ranks)
    while not (run_of(out) / "progress.csv").exists():
        assert process.poll() is None
        time.sleep(0.05)
    while not table(run_of(out)):
        assert process.poll() is None
        time.sleep(0.05)
    return process


@pytest.mark.parametrize(
    "sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.mpi)]
)
def test_a_signal_saves_and_ends_all_and_is_named(tmp_path, sent):
    process = begun(train_words(tmp_path, num_procs=2, steps=10**6), tmp_path)
    process.send_signal(sent)
    since = time.monotonic()
    code, said, err = ended(process)
    assert code == 128 + sent, err
    assert time.monotonic() - since < 5
    assert f"stopped by {sent.name} and saved" in said
    assert none_left_behind(tmp_path, 5)
    saved, complaints = checkpoint.newest(run_of(tmp_path))
    assert saved.content["env_steps"] >= 48
    assert len(saved.content["ranks"]) == 1
    assert not complaints


def test_ctrl_c_while_the_ranks_start_is_named_too(tmp_path):
    process = start(train_words(tmp_path, num_procs=2, steps=10**6))
    while not any(rank_of(other) == "0" for other in left_behind(tmp_path)):
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code == 128 + signal.SIGINT
    assert re.search("rank . .* was killed by SIGINT; all end|interrupted", err), err
    assert "SIGUSR1" not in err
    assert none_left_behind(tmp_path, 5)


@pytest.mark.mpi
def test_under_an_mpirun_of_the_users_sigusr1_saves(tmp_path):
    process = begun(train_words(tmp_path, steps=10**6), tmp_path, ranks=2)
    process.send_signal(signal.SIGUSR1)
    _, said, _ = ended(process)
    assert "stopped by SIGUSR1 and saved" in said
    assert none_left_behind(tmp_path, 5)


def test_a_killed_mpirun_is_told(tmp_path):
    process = begun(train_words(tmp_path, num_procs=2, steps=10**6), tmp_path)
    (mpirun,) = children_of(process.pid)
    os.kill(mpirun, signal.SIGKILL)
    code, _, err = ended(process)
    assert code == 128 + signal.SIGKILL
    assert err == "jaxrl: mpirun was killed by SIGKILL; all end\n"
    assert none_left_behind(tmp_path, 5)


def children_of(process):
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True)
    return [int(number) for number in found.stdout.split()]


@pytest.mark.parametrize(
    "whose", ["ours", pytest.param("a user's", marks=pytest.mark.mpi)]
)
def test_killing_the_launcher_leaves_no_orphan(tmp_path, whose):
    ours = whose == "ours"
    words = train_words(tmp_path, steps=10**6, **{"num_procs": 2} if ours else {})
    process = begun(words, tmp_path, 1 if ours else 2)
    assert len(left_behind(tmp_path)) >= 3
    process.kill()
    assert none_left_behind(tmp_path, 5)
    process.communicate()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"algo": "sac", "batch_size": 25}, "batch_size is 25, but 2 processes must"),
        ({"steps_per_epoch": 49}, "steps_per_epoch is 49, but 2 environments must"),
        ({"env": "Pendulam-v1"}, "did you mean Pendulum-v1"),
    ],
)
def test_bad_input_is_told_once(tmp_path, settings, told):
    code, _, err = ended(start(train_words(tmp_path, num_procs=2, **settings)))
    assert code == 2
    assert err.count("jaxrl: ") == 1, err
    assert told in err
    assert not list(tmp_path.iterdir())


def test_the_settings_of_parallelism_are_refused_where_they_cannot_be(
    tmp_path, capsys, monkeypatch
):
    assert len(jax.devices()) == 2  # JAX has started
    words = train_words(tmp_path, devices=3, num_envs=4)[len(JAXRL) :]
    assert main(words) == 2
    assert "devices is 3, but JAX has started with 2" in capsys.readouterr().err
    words = train_words(tmp_path, devices=2, num_envs=3)[len(JAXRL) :]
    assert main(words) == 2
    assert "cannot split num_envs of 3 over 2 devices" in capsys.readouterr().err
    monkeypatch.setattr(mpirun.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    assert main(train_words(tmp_path, num_procs=2)[len(JAXRL) :]) == 2
    assert "pip install 'jaxrl[mpi]' brings Open MPI" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_all_devices_that_divide_the_work_are_taken_by_default():
    assert Devices(0, 4, "num_envs").count == 2
    assert Devices(0, 3, "num_envs").count == 1


def test_open_mpis_banners_give_way_to_a_line():
    rule = "-" * 74 + "\n"
    killed = "prterun noticed that process rank 1 with PID 5606 on node vm exited on\n"
    said = ["before\n", rule, killed, "signal 9 (Killed).\n", rule, "after\n"]
    told = "jaxrl: rank 1 on vm was killed by SIGKILL; all end\n"
    assert list(mpirun.without_banners(said)) == ["before\n", told, "after\n"]
    gone = "prterun has exited due to process rank 2 with PID 7 on node vm exiting\n"
    (told,) = mpirun.without_banners([rule, gone, "improperly. There are\n", rule])
    assert told == "jaxrl: rank 2 on vm went without a word; all end\n"
    left = "   Process name: [prterun-vm-25935@1,1]\n   Exit code:    5\n"
    (told,) = mpirun.without_banners([rule, left, rule])
    assert told == "jaxrl: rank 1 ended with exit code 5; all end\n"
    assert list(mpirun.without_banners(["why\n", rule, left, rule])) == ["why\n"]
    strange = [rule, "There are not enough slots\n", rule]
    assert list(mpirun.without_banners(strange)) == ["There are not enough slots\n"]
    assert list(mpirun.without_banners([rule, "cut\n"])) == ["cut\n"]
    assert list(mpirun.without_banners(["\0", "\0" + rule, left, "\0" + rule])) == [
        told
    ]


# Two hosts: two network namespaces joined by a cable of their own


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
    said = ended(start(["sh", "-c", f"{hosts} hostname"], **one_each))[1]
    assert sorted(said.split()) == ["a", "b"]
    trained(tmp_path / "a", "ppo")
    words = " ".join(train_words(tmp_path / "b", "ppo"))
    code, _, err = ended(start(["sh", "-c", f"{hosts} {words}"], **one_each))
    assert code == 0, err
    assert_same_run(tmp_path / "a", tmp_path / "b")
