"""A grid on a cluster: a real Slurm of one node, started here."""

import importlib.util
import os
import re
import select
import shutil
import signal
import subprocess
import textwrap

import cluster
import numpy as np
import pytest
from small_grids import (  # noqa: F401
    QUIET,
    TINY,
    finished_command,
    grid_command,
    rows,
    surroundings,
    tiny,
    wait_for,
)
from small_runs import table

from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.experiments import grid_file, slurm_queue, slurm_task
from jaxrl.experiments import slurm as slurm_module
from jaxrl.experiments.estimate import estimate
from jaxrl.experiments.job import Job
from jaxrl.experiments.runner import JobTable, Options, Runner
from jaxrl.experiments.slurm import Slurm
from jaxrl.runs import reading


@pytest.fixture(scope="module")
def daemons(tmp_path_factory):
    with cluster.slurm(tmp_path_factory.mktemp("slurm")) as conf:
        yield conf


@pytest.fixture
def slurm(daemons, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("SLURM_CONF", str(daemons))
    yield
    subprocess.run(["scancel", "--me"], check=True)
    wait_for(lambda: not asked("squeue", "--me", "--noheader"))


def asked(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def words_of(tmp_path, name, **settings):
    """The words of a tiny grid in a file, which asks for one core and little memory."""
    whole = {"algo": "ppo", "env": "own_envs:Count-v0"} | TINY | settings
    lines = [f"{key}: {value}" for key, value in whole.items()]
    lines += ["slurm: {partition: main, time: 30:00, cpus: 1, memory: 500M}"]
    file = tmp_path / f"{name}.yaml"
    file.write_text("\n".join(lines))
    return [str(file), "--launcher", "slurm"]


def scripts(tmp_path, name):
    """One for each array that was submitted."""
    return sorted((tmp_path / f"runs/{name}/slurm").glob("[0-9]*_submission.sh"))


def array_of(tmp_path, name):
    (script,) = scripts(tmp_path, name)
    return script.name.partition("_")[0]


@pytest.mark.slurm
def test_an_array_lists_its_failure_and_a_rerun_retries_only_that(slurm, tmp_path):
    words = words_of(tmp_path, "g", **{"env_kwargs:fault[f]": "[none, reward, later]"})
    code, printed = finished_command([*words, "--retries", "1"])
    assert code == 1, printed
    assert re.search("finished g_fnone_s0 .*128", printed)
    assert re.search("2 of 3 finished.* 1 failed", printed)
    assert re.search("g_freward_s0.*reward", printed)
    output = (tmp_path / "runs/g/g_freward/g_freward_s0.txt").read_text()
    assert len(re.findall("reward .*finite", output)) == 2  # tried twice
    (script,) = scripts(tmp_path, "g")
    assert "--array=0-2%3" in script.read_text()
    done = tmp_path / "runs/g/g_fnone/g_fnone_s0"
    assert reading.record(done).config["machine"]["threads"] == 1
    before = (done / "progress.csv").stat().st_mtime_ns
    code, printed = finished_command(words)
    assert code == 1, printed
    assert re.search("2 of 3 .*finished", printed)
    assert "--array=0-0%1" in scripts(tmp_path, "g")[1].read_text()
    assert (done / "progress.csv").stat().st_mtime_ns == before
    assert not list(tmp_path.rglob("*.pkl"))


@pytest.mark.slurm
def test_more_runs_than_an_array_may_hold_are_several_arrays_in_turn(slurm, tmp_path):
    words = words_of(tmp_path, "g", seed="[0, 1, 2, 3, 4]")
    code, printed = finished_command([*words, "--jobs", "2"])
    assert code == 0, printed
    assert "5 of 5 finished" in printed
    first, second = scripts(tmp_path, "g")
    assert "--array=0-3%2" in first.read_text()
    assert "--dependency" not in first.read_text()
    assert "--array=0-0%1" in second.read_text()
    number = first.name.partition("_")[0]
    assert f"--dependency=afterany:{number}" in second.read_text()


TAKEN_AWAY = ["scontrol", "requeue"]
TIME_IS_UP = ["scancel", "--batch", "--signal=USR1"]


@pytest.mark.slurm
@pytest.mark.parametrize("how", [TAKEN_AWAY, TIME_IS_UP], ids=["preempted", "time-up"])
def test_a_preempted_run_is_requeued_and_ends_as_if_undisturbed(slurm, tmp_path, how):
    undisturbed = tiny("a", epochs=300).run(**QUIET).finished[0]
    path = tmp_path / "runs/b/b/b_s0"
    with grid_command(words_of(tmp_path, "b", epochs=300)) as process:
        wait_for(lambda: rows(path) > 2)
        begun = (path / "progress.csv").read_text().splitlines()[:3]
        task = f"{array_of(tmp_path, 'b')}_0"
        subprocess.run([*how, task], check=True)
        printed = process.communicate(timeout=120)[0]
    assert process.returncode == 0, printed
    assert "Restarts=1" in asked("scontrol", "show", "job", task)
    assert " and saved" in path.with_suffix(".txt").read_text()
    resumed = (path / "progress.csv").read_text().splitlines()
    assert resumed[:3] == begun  # also the clock: resumed, not restarted
    assert table(path) == table(undisturbed)
    one, two = (np.load(x / "models/last/policy.npz") for x in (path, undisturbed))
    assert set(one) == set(two)
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


@pytest.mark.slurm
def test_with_a_gpu_the_runs_that_one_program_can_train_are_one_task(slurm, tmp_path):
    own = {"env": "phys2d/CartPole-v1", "seed": "[0, 1]", "num_envs": 4}
    words = words_of(tmp_path, "g", **own, train_pi_iters="[2, 3]")
    file = tmp_path / "g.yaml"
    file.write_text(file.read_text().replace("cpus: 1", "cpus: 1, gpus: 1"))
    code, printed = finished_command(words)
    assert code == 0, printed
    assert "4 of 4 finished" in printed
    assert printed.count("2 runs in one program, from g_") == 2
    (script,) = scripts(tmp_path, "g")
    assert "#SBATCH --array=0-1%2" in script.read_text()
    paths = sorted(path.parent for path in tmp_path.glob("runs/g/*/*/config.yaml"))
    assert len(paths) == 4
    assert table(paths[0]) != table(paths[1])  # each has its seed


@pytest.mark.slurm
def test_ctrl_c_leaves_the_jobs_and_a_rerun_finds_them(slurm, tmp_path):
    words = words_of(tmp_path, "g", seed="[0, 1, 2]", epochs=100_000)
    path = tmp_path / "runs/g/g/g_s0"
    with grid_command(words) as process:
        wait_for(lambda: rows(path) > 2)
        process.send_signal(signal.SIGINT)
        printed = process.communicate(timeout=30)[0]
    assert process.returncode == 128 + signal.SIGINT, printed
    array = array_of(tmp_path, "g")
    assert f"scancel {array}" in printed
    before = rows(path)
    wait_for(lambda: rows(path) > before)
    queued = tmp_path / "runs/g/g/g_s2"
    assert not queued.exists()  # there are two cores
    other = words_of(tmp_path, "g", seed="[2]", epochs=7)
    code, printed = finished_command(other)
    assert code == 2
    assert re.search("g_s2 .*queue", printed)
    assert f"scancel {array}_2" in printed
    code, printed = finished_command(words[:1])  # on this machine
    assert code == 2
    assert re.search("g .*queue", printed)
    words = words_of(tmp_path, "g", seed="[0, 1, 2]", epochs=100_000)
    with grid_command([*words, "--out", tmp_path / "runs"]) as process:
        assert select.select([process.stdout], [], [], 60)[0], "it shows nothing"
        assert "started g_s0" in process.stdout.readline()
        assert array_of(tmp_path, "g") == array  # not submitted twice
        subprocess.run(["scancel", array], check=True)
        printed = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert "g_s0: cancelled" in printed
    assert "g_s2: cancelled" in printed
    assert reading.saved_checkpoints(path)


@pytest.mark.slurm
def test_what_slurm_refuses_is_an_error_of_one_line(slurm, tmp_path, capsys):
    words = words_of(tmp_path, "g")
    text = (tmp_path / "g.yaml").read_text().replace("main", "absent")
    (tmp_path / "g.yaml").write_text(text)
    assert main(["grid", *words]) == 2
    printed_error = capsys.readouterr().err
    assert "sbatch" in printed_error
    assert "invalid partition" in printed_error
    assert printed_error.count("\n") == 1


@pytest.mark.slurm
def test_a_run_of_several_processes_asks_for_as_many_tasks(slurm, tmp_path):
    (several,) = tiny("g").add("num_procs", 2).runs()
    folder = tmp_path / "runs/g/slurm"
    held = Slurm(sbatch={"hold": True})
    slurm_module.submit([[Job.from_variant(several)]], Options(), held, folder)
    assert "--ntasks=2" in scripts(tmp_path, "g")[0].read_text()
    (task,) = slurm_queue.read(folder).values()
    assert (task.state, task.live) == ("PENDING", True)


@pytest.mark.slurm
def test_a_run_of_several_processes_runs_under_srun(slurm, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_MPI_TYPE", "pmix")  # which Open MPI uses
    tried = subprocess.run(["srun", "--ntasks=1", "true"], capture_output=True)
    if tried.returncode:
        pytest.skip("this Slurm has no PMIx; apt install libpmix-dev")
    code, printed = finished_command(words_of(tmp_path, "g", num_procs=2))
    assert code == 0, printed
    path = tmp_path / "runs/g/g/g_s0"
    assert reading.record(path).num_procs == 2
    (again,) = tiny("again").add("num_procs", 2).run(**QUIET).finished  # by mpirun
    assert table(path) == table(again)


# Without a cluster


def test_several_processes_are_started_by_srun_and_share_the_cores(monkeypatch):
    (variant,) = tiny("g").runs()
    tasks = {"retries": 2, "time_limit": 0.0}
    one = slurm_task.options(tasks, variant, {"SLURM_CPUS_PER_TASK": "4"})
    assert (one.launcher, one.threads, one.retries) == ((), 4, 2)
    (four,) = tiny("g").add("num_procs", 4).runs()
    words = ("srun", "--ntasks=4", "--cpus-per-task=1", "--kill-on-bad-exit")
    assert slurm_task.options(tasks, four, {}).launcher == words
    jobs = [Job.from_variant(four), Job.from_variant(variant)]
    jobs[0].state = "running"
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(6))
    runner = Runner(JobTable("g", jobs, Options(**QUIET)), Options())
    assert [runner.has_room(n) for n in (1, 2, 3)] == [True, True, False]
    assert estimate([variant, four])[1].startswith("1 at a time")


def test_a_time_limit_without_progress_is_a_failure_and_no_endless_loop(
    tmp_path, monkeypatch
):
    (variant,) = tiny("g").runs()
    variant.write()
    file = tmp_path / "tasks.json"
    file.write_text(f'{{"tasks": [["{variant.file}"]], "retries": 0, "time_limit": 0}}')

    def time_up(runner):
        (job,) = runner.table.jobs
        job.state, job.reason = "stopped", "stopped by SIGUSR1"
        return runner.table.end(signal.SIGUSR1)

    monkeypatch.setattr(Runner, "run", time_up)
    assert slurm_task.main(file, {"SLURM_ARRAY_TASK_ID": "0"}) == 1
    ended = Job.from_variant(variant).outcome
    assert ended.state == "failed"
    assert "time limit" in ended.reason


BAD = """\
algo: ppo
env: CartPole-v1
slurm:
  partion: gpu
  time: 4h
  cpus: 0
  gpus: many
  memory: 8 GB
  account: "a\\nb"
  sbatch: {array: 0-7}
"""
MISTAKES = {
    4: "slurm .*'partion'.*'partition'",
    5: "time .*'4h'.*hours:minutes:seconds",
    6: "cpus .*'0'.*>= 1",
    7: "gpus .*'many'.*number",
    8: "memory .*'8 GB'.*8G",
    9: r"account .*'a\\nb'.*without spaces",
    10: "sbatch .*'array'",
}


def test_every_mistake_in_the_slurm_section_is_named_with_its_line(tmp_path, capsys):
    (tmp_path / "bad.yaml").write_text(BAD)
    assert main(["grid", "bad.yaml"]) == 2
    printed_error = capsys.readouterr().err
    for line, part in MISTAKES.items():
        assert re.search(f"line {line}: .*{part}", printed_error)
    assert len(printed_error.splitlines()) == len(MISTAKES) + 1


@pytest.mark.parametrize(
    ("section", "part"),
    [
        ("slurm: gpu", "slurm .*{cpus: 4, gpus: 1}"),
        ("slurm: {sbatch: x}", "sbatch .*options"),
        ("slurm: {sbatch: {X y: 1}}", "'X y'.* sbatch"),
        ("slurm: {sbatch: {begin: 'a b'}}", "'a b'.*without spaces"),
        ("slurmm: {cpus: 1}", "'slurmm'.*'slurm'"),
    ],
)
def test_a_section_is_refused_in_a_sentence(tmp_path, capsys, section, part):
    (tmp_path / "g.yaml").write_text(f"algo: ppo\nenv: CartPole-v1\n{section}\n")
    assert main(["grid", "g.yaml"]) == 2
    assert re.search(part, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [("", False), ("0", False), ("a100:0", False), ("1", True), ("a100:10", True)],
)
def test_a_section_asks_for_gpus_or_not(gpus, expected):
    assert Slurm(gpus=gpus).has_gpus == expected


def test_what_is_asked_of_slurm_is_taken_as_it_is_written(tmp_path):
    text = """
        algo: ppo
        env: CartPole-v1
        slurm:
          {time: 4:00:00, gpus: a100:1, sbatch: {begin: 16:00, exclusive: true}}
    """
    (tmp_path / "g.yaml").write_text(textwrap.dedent(text))
    parameters = grid_file.read("g.yaml").slurm.parameters(1)
    assert parameters["time"] == "4:00:00"
    assert parameters["gres"] == "gpu:a100:1"
    assert parameters["partition"] is None
    further = parameters["additional_parameters"]
    assert (further["begin"], further["exclusive"]) == ("16:00", True)


def test_where_there_is_no_slurm_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["grid", "ppo", "--env", "CartPole-v1", "--launcher"]
    with pytest.raises(UserError, match=r"cpus .*-1"):
        tiny("g").run(slurm=Slurm(cpus=-1))
    assert main([*words, "slurn"]) == 2
    assert "'slurm'" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main([*words, "slurm"]) == 2
    assert "pip install 'jaxrl[slurm]'" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.chdir(tmp_path)
    assert main([*words, "slurm"]) == 2
    assert "no sbatch" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
