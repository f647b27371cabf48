"""Ranks end together: after errors, kills, hangs and signals; nothing is left."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from launching import (
    begun,
    ended,
    left_behind,
    none_left_behind,
    rank_of,
    run_of,
    start,
    train_words,
)
from small_runs import table

from jaxrl.parallel.watchdog import Watchdog
from jaxrl.processes import banners, records
from jaxrl.processes.signals import StopRequest
from jaxrl.runs import checkpoint, reading
from jaxrl.runs.overview import overviews


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ("raises", "jaxrl: rank 1: .*a stone on the way"),
        pytest.param(
            "exits",
            r"jaxrl: rank 1: .*exit\(0\)",
            marks=pytest.mark.mpi,
        ),
        ("sleeps", "rank 1 .*progress.* 6 s"),
        pytest.param("vanishes", "rank 1 .*finalizing", marks=pytest.mark.mpi),
        pytest.param("is killed", "rank 1 .*SIGKILL", marks=pytest.mark.mpi),
        pytest.param("is stopped", "rank 1 .*progress", marks=pytest.mark.mpi),
    ],
)
def test_one_rank_in_trouble_ends_all_and_is_named(tmp_path, trouble, message):
    settings = {"steps": 10**6, "env_kwargs": f"{{trouble: {trouble}}}"}
    words = train_words(tmp_path, env="own_envs:Trouble-v0", num_procs=2, **settings)
    hangs = trouble in ("sleeps", "is stopped")
    process = start(words, JAXRL_STALL_SECONDS="6" if hangs else "600")
    code, _, err = ended(process, 60)
    assert code not in (0, 2)
    assert re.search(message, err, re.DOTALL), err
    assert err.count("jaxrl: ") == 1, err
    assert "\0" not in err
    assert none_left_behind(tmp_path, 5)
    record = reading.record(run_of(tmp_path))
    assert record.state == ("failed" if trouble == "raises" else "interrupted")
    # Why is also known to who lists the run later.
    (shown,) = overviews([str(record.path)])
    assert shown.reason == record.status.reason
    assert re.search(message.removeprefix("jaxrl: "), f"rank 1: {shown.reason}")


@pytest.mark.mpi
def test_rank_0_is_watched_too(tmp_path):
    settings = {"steps": 10**6, "env_kwargs": "{trouble: is stopped, rank: 0}"}
    words = train_words(tmp_path, env="own_envs:Trouble-v0", num_procs=3, **settings)
    code, _, err = ended(start(words, JAXRL_STALL_SECONDS="6"), 60)
    assert code not in (0, 2)
    assert re.search("rank 0 .*progress", err), err
    assert none_left_behind(tmp_path, 5)


def test_a_slow_reset_is_waited_for(tmp_path):
    words = train_words(tmp_path, env="own_envs:SlowReset-v0", num_procs=2)
    code, _, err = ended(start(words))
    assert code == 0, err
    assert len(table(run_of(tmp_path))) == 4


class SilentPeer:
    """A communicator whose other rank sends nothing."""

    rank, size = 0, 2

    def Send(self, *_):
        pass

    def Iprobe(self, *_):
        return False

    def Barrier(self):
        pass


@pytest.fixture
def other_process():
    process = subprocess.Popen(["sleep", "100"])
    yield process
    process.kill()
    process.wait()


def test_a_stopped_rank_has_as_long_as_a_slow_one(monkeypatch, other_process):
    monkeypatch.setenv("JAXRL_STALL_SECONDS", "8")
    reasons = []
    watchdog = Watchdog(SilentPeer(), {1: other_process.pid}, reasons.append)
    other_process.send_signal(signal.SIGSTOP)
    time.sleep(5)
    assert not reasons
    time.sleep(5)
    watchdog.end()
    (reason,) = reasons
    assert "rank 1" in reason
    assert "JAXRL_STALL_SECONDS" in reason


def test_a_dead_rank_is_seen_where_the_launcher_does_not_care(other_process):
    reasons = []
    watchdog = Watchdog(SilentPeer(), {1: other_process.pid}, reasons.append)
    other_process.kill()
    time.sleep(6)
    watchdog.end()
    (reason,) = reasons
    assert "rank 1" in reason


@pytest.mark.parametrize(
    "sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.mpi)]
)
def test_a_signal_saves_and_ends_all_and_is_named(tmp_path, sent):
    process = begun(train_words(tmp_path, num_procs=2, steps=10**6), tmp_path)
    process.send_signal(sent)
    since = time.monotonic()
    code, out, err = ended(process)
    assert code == 128 + sent, err
    assert time.monotonic() - since < 5
    assert re.search(f"{sent.name}.*\n.*jaxrl resume ", out)
    assert none_left_behind(tmp_path, 5)
    saved, complaints = checkpoint.newest(run_of(tmp_path))
    assert saved.content["env_steps"] >= 48
    assert len(saved.content["ranks"]) == 1
    assert not complaints


def test_a_signal_that_comes_while_ranks_agree_is_not_lost():
    def allreduce_max(*values):
        if not asked:
            signal.raise_signal(signal.SIGTERM)
        asked.append(values)
        return list(values)

    asked = []
    with StopRequest(allreduce_max) as stop:
        assert not stop.agreed()
        assert stop.agreed()
    assert stop.signal is signal.SIGTERM


def test_ctrl_c_while_the_ranks_start_is_named_too(tmp_path):
    process = start(train_words(tmp_path, num_procs=2, steps=10**6))
    while not any(rank_of(other) == "0" for other in left_behind(tmp_path)):
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert code == 128 + signal.SIGINT
    assert re.search("rank . .*SIGINT|interrupted", err), err
    assert "SIGUSR1" not in err
    assert none_left_behind(tmp_path, 5)


@pytest.mark.mpi
def test_under_an_mpirun_of_the_users_sigusr1_saves(tmp_path):
    process = begun(train_words(tmp_path, steps=10**6), tmp_path, ranks=2)
    process.send_signal(signal.SIGUSR1)
    _, out, _ = ended(process)
    assert re.search("SIGUSR1.*\n.*jaxrl resume ", out)
    assert none_left_behind(tmp_path, 5)


def test_a_killed_mpirun_is_reported(tmp_path):
    process = begun(train_words(tmp_path, num_procs=2, steps=10**6), tmp_path)
    running = set(map(int, left_behind(tmp_path)))
    (mpirun,) = running.intersection(children_of(process.pid))
    (directory,) = session_directories(tmp_path)
    os.kill(mpirun, signal.SIGKILL)
    code, _, err = ended(process)
    assert code == 128 + signal.SIGKILL
    assert re.search("mpirun .*SIGKILL", err)
    assert len(err.splitlines()) == 1
    assert not directory.exists()
    assert none_left_behind(tmp_path, 5)


def children_of(process):
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True)
    return [int(number) for number in found.stdout.split()]


def session_directories(mark):
    """Where jaxrl's launcher keeps the files of the ranks of these runs."""
    found = set()
    for process in filter(rank_of, left_behind(mark)):
        words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        name = f"{records.FILE}=".encode()
        paths = [w.removeprefix(name).decode() for w in words if w.startswith(name)]
        found |= {Path(path).parent for path in paths}
    return found


def removed(directory, seconds):
    until = time.monotonic() + seconds
    while directory.exists() and time.monotonic() < until:
        time.sleep(0.1)
    return not directory.exists()


@pytest.mark.parametrize(
    "whose", ["ours", pytest.param("a user's", marks=pytest.mark.mpi)]
)
def test_killing_the_launcher_leaves_no_orphan(tmp_path, whose):
    ours = whose == "ours"
    words = train_words(tmp_path, steps=10**6, **{"num_procs": 2} if ours else {})
    process = begun(words, tmp_path, 1 if ours else 2)
    assert len(left_behind(tmp_path)) >= 3
    directories = session_directories(tmp_path)
    assert len(directories) == ours
    process.kill()
    assert none_left_behind(tmp_path, 5)
    process.communicate()
    assert all(removed(directory, 5) for directory in directories)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algo": "sac", "batch_size": 25}, "batch_size is 25.* 2 "),
        ({"steps_per_epoch": 49}, "steps_per_epoch is 49.* 2 "),
        ({"env": "Pendulam-v1"}, "Pendulum-v1"),
    ],
)
def test_bad_input_is_reported_once(tmp_path, settings, message):
    code, _, err = ended(start(train_words(tmp_path, num_procs=2, **settings)))
    assert code == 2
    assert err.count("jaxrl: ") == 1, err
    assert re.search(message, err), err
    assert not list(tmp_path.iterdir())


def test_ranks_report_to_their_launcher_and_only_to_it(tmp_path, monkeypatch):
    assert not records.write(1, "started")  # nobody reads it
    file = tmp_path / "ranks.jsonl"
    monkeypatch.setenv(records.FILE, str(file))
    assert not records.write(1, "started")  # on another host
    file.touch()
    assert records.write(1, "started")
    assert records.write(1, "failed", reason="two\nlines", exit_code=1)
    with file.open("a") as half:
        half.write('{"rank": 0, "ho')
    started, failed = records.read(file)
    assert (started.rank, started.state, started.pid) == (1, "started", os.getpid())
    assert (failed.reason, failed.exit_code) == ("two\nlines", 1)


def test_a_run_whose_session_directory_was_removed_still_stops_and_saves(tmp_path):
    process = begun(train_words(tmp_path, num_procs=2, steps=10**6), tmp_path)
    (directory,) = session_directories(tmp_path)  # of this run only
    shutil.rmtree(directory)
    process.send_signal(signal.SIGTERM)
    code, out, err = ended(process)
    assert code == 128 + signal.SIGTERM, err
    assert "Traceback" not in err
    assert "jaxrl resume " in out
    assert none_left_behind(tmp_path, 5)


RULE = "-" * 74 + "\n"
KILLED = (
    "prterun noticed that process rank 1 with PID 5606 on node vm exited on\n"
    "signal 9 (Killed).\n"
)
GONE = (
    "prterun has exited due to process rank 2 with PID 7 on node vm exiting\n"
    "improperly. There are\n"
)
FAILED = "   Process name: [prterun-my-vm-25935@1,1]\n   Exit code:    5\n"


def test_open_mpis_banners_are_separated_from_other_lines():
    def separate(*texts):
        return list(banners.separate("".join(texts).splitlines(keepends=True)))

    found = separate("before\n", RULE, KILLED, RULE, "after\n")
    assert found == [("before\n", False), (KILLED, True), ("after\n", False)]
    assert separate("\0", "\0" + RULE, FAILED, "\0" + RULE) == [(FAILED, True)]
    slots = "There are not enough slots\n"  # not about a rank's end: printed at once
    assert separate(RULE, slots, RULE) == [(slots, False)]
    assert separate(RULE, "cut\n") == [("cut\n", False)]


def test_open_mpis_banners_say_how_a_rank_ended():
    killed, gone, failed = map(banners.parse, (KILLED, GONE, FAILED))
    assert (killed.rank, killed.host, killed.signal) == (1, "vm", "SIGKILL")
    assert (gone.rank, gone.host, gone.state) == (2, "vm", "exited")
    assert (failed.rank, failed.host, failed.exit_code) == (1, "my-vm", 5)
    assert banners.parse("MPI_ABORT was invoked in other words\n") is None
