"""Many runs at once: failures, signals, kills and reruns."""

import math
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from small_grids import (
    QUIET,
    finished_command,
    grid_command,
    in_a_line,
    rows,
    surroundings,  # noqa: F401
    tiny,
    wait_for,
)
from small_runs import table

from jaxrl.errors import UserError
from jaxrl.experiments import job as job_module
from jaxrl.experiments import runner
from jaxrl.experiments.job import Job
from jaxrl.experiments.live_table import Line, LiveTable
from jaxrl.runs import reading, status
from jaxrl.runs.status import Status


def children_of(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in found]


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_bad_variants_do_not_stop_the_rest(tmp_path):
    words = in_a_line("g", seed=[0, 1], **{"env_kwargs:fault[f]": ["none", "reward"]})
    words += ["--gamma", "0.9", "--jobs", "2", "--retries", "1"]
    code, printed = finished_command(words)
    assert code == 1, printed
    assert re.search("2 of 4 finished.* 2 failed", printed)
    assert re.search("retrying g_freward_s0.*reward", printed)
    for seed in 0, 1:
        done = tmp_path / f"runs/g/g_fnone/g_fnone_s{seed}"
        assert len(table(done)) == 2
        assert reading.record(done).state == "finished"
        failed = tmp_path / f"runs/g/g_freward/g_freward_s{seed}"
        assert re.search(f"g_freward_s{seed}: .*reward.*finite", printed)
        assert reading.record(failed).state == "failed"
        output = failed.with_suffix(".txt").read_text()
        assert len(re.findall("reward .*finite", output)) == 2  # tried twice


class Ended:
    """Stands for a process that is over."""

    def __init__(self, code):
        self.returncode = code

    def poll(self):
        return self.returncode


def test_the_reason_of_a_failure_is_that_of_this_attempt_and_no_earlier_one(tmp_path):
    (variant,) = tiny("g").runs()
    variant.path.mkdir(parents=True)
    job = Job.from_variant(variant)

    def reason_of_end(code):
        job.process, job.state = Ended(code), "running"
        job.poll(0.0)
        assert job.state == "failed"
        return job.reason

    job.note_outcome(Status(state="failed", reason="boom", exit_code=1))
    assert reason_of_end(1) == "boom"
    assert "SIGKILL" in reason_of_end(-signal.SIGKILL)
    assert job.outcome.signal == "SIGKILL"
    job.remove_outcome()
    job.output.write_text("jaxrl: gamma is 2\n")  # which is for people
    assert "code 7" in reason_of_end(7)
    assert job.outcome.exit_code == 7


def test_a_run_that_fails_before_it_has_a_directory_says_why_as_data(tmp_path):
    (tmp_path / "broken_envs.py").write_text("raise RuntimeError('boom\\nhere')")
    words = ["ppo", "--name", "g", "--env", "broken_envs:X-v0", "nowhere:X-v0"]
    code, printed = finished_command(words)
    assert code == 1, printed
    root = tmp_path / "runs/g"
    outcomes = {file.stem: status.read(file) for file in root.rglob("*_s0.json")}
    assert {one.state for one in outcomes.values()} == {"failed"}
    reasons = " ".join(one.reason for one in outcomes.values())
    assert "boom here" in reasons
    assert "nowhere" in reasons
    for one in outcomes.values():
        assert one.reason in printed


def test_the_time_left_is_that_of_the_runs_that_are_left(capsys):
    done = Line("a", "finished", 100, steps=100, seconds=50.0)
    lines = [done, Line("b", "running", 100, steps=90, seconds=63.0)]
    assert LiveTable("g", lines, 2).time_left(lines) == pytest.approx(7.0)
    lines += [Line("c", "waiting", 100)] * 3  # each as the mean of 50 and 70
    assert LiveTable("g", lines, 6).time_left(lines) == pytest.approx(7 + 4 * 60)
    fresh = [Line("a", "running", 100), Line("b", "waiting", 100)]
    assert LiveTable("g", fresh, 2).time_left(fresh) == math.inf


def test_numbers_of_numpy_are_options_of_a_grid():
    given = {"jobs": np.int64(2), "retries": np.int8(1), "time_limit": np.float32(5)}
    options = runner.Options(**given)
    assert (options.jobs, options.retries, options.time_limit) == (2, 1, 5.0)
    assert type(options.jobs) is int


@pytest.mark.parametrize(
    "wrong", [{"jobs": "x"}, {"retries": -1}, {"time_limit": -1}, {"time_limit": "5x"}]
)
def test_wrong_options_are_refused_from_python_too(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        tiny("g").run(**wrong)


def test_a_stopped_run_counts_as_its_steps_and_a_failed_one_as_all():
    line = Line("a", "stopped", 100, "stopped by SIGINT", steps=30)
    assert line.done == 30
    assert line._replace(state="failed").done == 100
    assert line._replace(state="pruned").done == 100


@pytest.fixture
def screen(monkeypatch, capsys):
    """What a table shows on a terminal with `columns` columns, row by row."""

    def screen(lines, columns=60, rows=24):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        for name, value in ("COLUMNS", columns), ("LINES", rows), ("NO_COLOR", 1):
            monkeypatch.setenv(name, str(value))
        monkeypatch.setenv("TERM", "xterm")
        LiveTable("g", lines, len(lines)).show(lines)
        # Without the table's own styles and erasing.
        own = re.compile(r"\033\[(\d*m|K|J)")
        return own.sub("", capsys.readouterr().out).splitlines()

    return screen


def test_a_narrow_terminal_cuts_the_name_and_no_number(screen):
    line = Line("hopper_" * 9 + "s0", "running", 100_000, steps=25_000)
    line = line._replace(returned=-123.4, seconds=100.0)
    drawn = screen([line])
    name, *numbers = drawn[2].split()
    assert name.startswith("…")
    assert name.endswith("_hopper_s0")
    assert numbers == ["running", "25000/100000", "-123.4", "0:05:00"]
    assert max(map(len, drawn)) <= 60


def test_a_summary_breaks_paths_at_their_parts_and_only_on_a_terminal(screen, capsys):
    path = "runs/long-grid/" + "hopper_" * 5 + "lr0-001/" + "hopper_" * 5 + "s0.txt"
    failed = [Line("a", "failed", 100, cause="it broke " * 9, output=path)]
    plain = LiveTable("g", failed, 1)
    plain.end(failed)
    assert f"    {path}\n" in capsys.readouterr().out
    screen(failed)  # from here on, a terminal of 60 columns
    LiveTable("g", failed, 1).end(failed)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    parts = [line.strip() for line in lines if line.startswith("    ")]
    assert "".join(parts) == path
    assert all(part.endswith(("/", "_", "s0.txt")) for part in parts)


def test_a_low_terminal_shows_the_runs_under_way_and_the_failed_ones(screen):
    lines = [Line(f"s{i}", "waiting", 100) for i in range(50)]
    lines += [Line("f", "failed", 100, cause="a cause"), Line("r", "running", 100)]
    drawn = screen(lines, rows=12)
    assert len(drawn) < 12
    text = "\n".join(drawn)
    assert "1 running" in text
    assert ["r", "running"] in [row.split()[:2] for row in drawn]
    assert ["f", "failed", "a", "cause"] in [row.split() for row in drawn]


@pytest.mark.parametrize("columns", [60, 120])
def test_names_and_causes_cannot_style_or_control_the_terminal(screen, columns):
    lines = [
        Line("[red]a[/red]\x1b[2J", "running", 9),
        Line("[b]", "failed", 9, cause="[i]no\x1b]0;title\x07 :smile:"),
    ]
    text = "\n".join(screen(lines, columns))
    assert "\x1b" not in text
    assert "\x07" not in text
    for due in ("[red]a[/red]", "[b]", "[i]no", ":smile:"):
        assert due in text


def test_rerunning_a_grid_skips_finished_runs_and_resumes_interrupted_ones(tmp_path):
    grid = tiny("g", seed=[0, 1])
    first = grid.run(jobs=1, **QUIET)
    assert [path.name for path in first.finished] == ["g_s0", "g_s1"]
    undisturbed = table(first.finished[1])
    before = (first.finished[0] / "progress.csv").stat().st_mtime_ns
    newest = reading.saved_checkpoints(first.finished[1])[-1]
    manifest = first.finished[1] / "checkpoints" / str(newest) / reading.MANIFEST
    manifest.unlink()
    status.update(first.finished[1], state="running")  # it was killed before its end
    assert reading.record(first.finished[1]).state == "interrupted"
    second = grid.run(jobs=1, **QUIET)
    assert len(second.finished) == 2
    assert table(second.finished[1]) == undisturbed
    assert (second.finished[0] / "progress.csv").stat().st_mtime_ns == before
    with pytest.raises(UserError, match=r"g_s0 .*gamma .* 0.9"):
        tiny("g", gamma=0.9).run(**QUIET)
    with pytest.raises(UserError, match=r"2 runs .*:\n.*g_s0.*\n.*g_s1"):
        tiny("g", seed=[0, 1], gamma=0.9).run(**QUIET)
    assert table(second.finished[1]) == undisturbed
    other = tiny("g", seed=[0], gamma=0.9).run(overwrite=True, **QUIET)
    assert reading.record(other.finished[0]).setting("gamma") == 0.9


def test_a_grid_resumes_with_weights_and_biases_where_it_asks_for_it(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("WANDB_MODE", "offline")
    grid = tiny("g", seed=0, wandb=True)
    (path,) = grid.run(jobs=1, **QUIET).finished
    newest = reading.saved_checkpoints(path)[-1]
    (path / "checkpoints" / str(newest) / reading.MANIFEST).unlink()
    status.update(path, state="running")  # it was killed before its end
    grid.run(jobs=1, **QUIET)
    assert reading.record(path).config["wandb"]
    assert len(list(path.glob("wandb/offline-run-*"))) == 2


def test_a_grid_rerun_after_ctrl_c_ends_as_if_undisturbed(tmp_path):
    undisturbed = tiny("a", epochs=40).run(**QUIET).finished[0]
    words = in_a_line("b", seed=[0, 1], epochs=40)
    path = tmp_path / "runs/b/b/b_s0"
    with grid_command([*words, "--jobs", "1"]) as process:
        wait_for(lambda: rows(path) > 2)
        (child,) = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        printed = process.communicate(timeout=30)[0]
    assert process.returncode == 128 + signal.SIGINT, printed
    assert "b_s0: stopped by SIGINT" in printed
    assert not is_alive(child)
    assert 0 < rows(path) < 40
    assert reading.saved_checkpoints(path)
    with_clock = (path / "progress.csv").read_text().splitlines()
    code, printed = finished_command([*words, "--jobs", "2"])
    assert code == 0, printed
    resumed = (path / "progress.csv").read_text().splitlines()
    assert resumed[: len(with_clock)] == with_clock  # resumed, not restarted
    assert table(path) == table(undisturbed)


def test_a_killed_runner_leaves_no_orphan(tmp_path):
    words = in_a_line("g", seed=[0, 1], epochs=100_000)
    with grid_command([*words, "--jobs", "2"]) as process:
        wait_for(lambda: len(children_of(process.pid)) == 2)
        time.sleep(random.uniform(0.5, 3))
        children = children_of(process.pid)
        process.kill()
    wait_for(lambda: not any(map(is_alive, children)), seconds=5)


def test_a_run_that_takes_too_long_is_saved_and_counted_as_failed(tmp_path):
    grid = tiny("g", epochs=100_000)
    summary = grid.run(time_limit=15.0, **QUIET)
    assert not summary.finished
    assert "15 s" in summary.failed["g_s0"]
    assert reading.saved_checkpoints(tmp_path / "runs/g/g/g_s0")


def test_a_run_that_does_not_save_in_time_is_killed(monkeypatch):
    monkeypatch.setattr(job_module, "GRACE", 1.0)
    deaf = "import signal, time; signal.signal(signal.SIGUSR1, signal.SIG_IGN); "
    deaf += "print('ready', flush=True); time.sleep(60)"
    (variant,) = tiny("g").runs()
    job = Job.from_variant(variant)
    words = [sys.executable, "-c", deaf]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        job.process, job.state = process, "running"
        wait_for(lambda: job.poll(0.1) or job.state == "stopped", seconds=10)
    assert "0.1 s" in job.reason
    assert "killed" in job.reason


def test_a_run_that_was_over_when_it_was_stopped_is_finished():
    (variant,) = tiny("g").runs()
    assert not tiny("g").run(**QUIET).failed
    job = Job.from_variant(variant)
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(words) as process:  # as a run that clears up at its end
        job.process, job.state = process, "running"
        job.stop(job_module.Stop("stopped by SIGINT"))
        process.wait()
    job.poll(0.0)
    assert (job.state, job.reason) == ("finished", "")


def test_a_run_that_cannot_be_started_is_listed_and_the_others_run(tmp_path, capsys):
    grid = tiny("g", seed=[0, 1])
    bad, good = grid.runs()
    bad.file.mkdir(parents=True)  # no settings can be written there
    summary = grid.run(retries=1)
    assert list(summary.failed) == [bad.name]
    assert summary.finished == [good.path]
    assert f"{bad.name}: {summary.failed[bad.name]}" in capsys.readouterr().out


def test_the_time_of_a_run_includes_its_start(capsys):
    assert Line("a", "finished", 100, steps=100, seconds=5.0).elapsed == 5.0
    grid = tiny("g")
    begin = time.monotonic()
    grid.run()
    assert "finished" in capsys.readouterr().out
    (variant,) = grid.runs()
    assert Job.from_variant(variant).line().elapsed < time.monotonic() - begin
    lines = [Line("a", "running", 100, steps=50, seconds=5.0, wall=9.0)]
    LiveTable("g", [], 1).end([lines[0]._replace(state="finished", steps=100)])
    assert "0:00:09" in capsys.readouterr().out


def test_two_processes_cannot_run_one_grid(tmp_path):
    with grid_command(in_a_line("g", epochs=100_000)) as process:
        wait_for(lambda: (tmp_path / "runs/g/g/g_s0/progress.csv").exists())
        with pytest.raises(UserError, match=r"another process .*runs/g"):
            tiny("g").run(**QUIET)
        process.terminate()
        assert process.wait(timeout=30) == 128 + signal.SIGTERM


# By the dozen


@pytest.mark.faults
def test_of_27_variants_with_5_bad_ones_22_finish_and_5_are_listed(tmp_path):
    grid = tiny("g", seed=[0, 1, 2], gamma=[0.9, 0.95, 0.99], lam=[0.8, 0.9, 1.0])
    bad = [(0, 0.9, 0.8), (0, 0.99, 0.9), (1, 0.95, 1.0), (2, 0.9, 0.9), (2, 0.99, 1.0)]
    for seed, gamma, lam in bad:
        where = {"seed": seed, "gamma": gamma, "lam": lam}
        grid.exclude(where).include(where | {"env_kwargs": {"fault": "observation"}})
    assert len(grid.variants()) == 27
    summary = grid.run(jobs=2)
    assert len(summary.finished) == 22
    assert len(summary.failed) == 5
    assert all("observation" in x for x in summary.failed.values())


@pytest.mark.faults
def test_a_runner_killed_20_times_ends_with_all_27_as_if_undisturbed(tmp_path):
    axes = {"seed": [0, 1, 2], "gamma": [0.9, 0.95, 0.99], "lam": [0.8, 0.9, 1.0]}
    axes["epochs"] = 400  # some seconds each, so that 20 kills find one at work
    start = time.monotonic()
    undisturbed = tiny("a", **axes).run(jobs=2, **QUIET).finished
    whole = time.monotonic() - start
    words = [*in_a_line("b", **axes), "--jobs", "2"]
    chance, cut = random.Random(0), 0
    for _ in range(20):
        with grid_command(words) as process:
            time.sleep(chance.uniform(0.01, 0.055) * whole)
            assert process.poll() is None, "there was nothing left to disturb"
            children = children_of(process.pid)
            process.kill()
        wait_for(lambda left=children: not any(map(is_alive, left)), seconds=5)
        begun = [
            reading.record(x.parent) for x in tmp_path.glob("runs/b/*/*/config.yaml")
        ]
        cut += any(record.state == "interrupted" for record in begun)
    assert cut > 5
    code, printed = finished_command(words, 5 * whole)
    assert code == 0, printed
    assert "27 of 27 finished" in printed
    for path in undisturbed:
        other = Path(str(path).replace("runs/a/a", "runs/b/b").replace("/a_", "/b_"))
        assert table(other) == table(path)
        one, two = (np.load(p / "models/last/policy.npz") for p in (path, other))
        assert set(one) == set(two)
        for name in one:
            np.testing.assert_array_equal(one[name], two[name])
