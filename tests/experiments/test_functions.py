"""Grids over a user's own function."""

import functools
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import own_functions
import pytest
from small_grids import QUIET, TESTS, surroundings, wait_for  # noqa: F401

from jaxrl import Grid
from jaxrl.errors import UserError
from jaxrl.runs import finding, overview, reading, status


@pytest.fixture
def grid():
    return Grid("g")


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def script(tmp_path, body, name="script.py"):
    """A script in its own process; its exit code and output."""
    file = tmp_path / name
    file.write_text(textwrap.dedent(body))
    command = [sys.executable, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    return done.returncode, done.stdout + done.stderr


def test_each_variant_gets_its_settings_and_an_empty_directory(grid):
    grid.add("hidden", [32, [64, 64]]).add("lr", "1e-3").add("nothing", [None])
    grid.add("nested:inner", [1.5]).add("seed", [0, 3]).add("both", [(1, "a")])
    summary = grid.run(own_functions.note, jobs=2, **QUIET)
    assert not summary.failed
    given = [json.loads((x / "given.json").read_text()) for x in summary.finished]
    rest = {"lr": "1e-3", "nothing": None, "nested": {"inner": 1.5}, "both": [1, "a"]}
    assert given == [
        {"hidden": hidden, "seed": seed} | rest
        for hidden in (32, [64, 64])
        for seed in (0, 3)
    ]
    assert [x.name for x in summary.finished[:2]] == ["g_hid32_s0", "g_hid32_s3"]


def test_finished_calls_are_skipped_and_failed_ones_start_again(grid, tmp_path):
    grid.add("seed", [0, 1]).add("where", str(tmp_path))
    first = grid.run(own_functions.fails_once, **QUIET)
    assert first.failed == {"g_s1": "ValueError: the data is missing"}
    failed = tmp_path / "runs/g/g/g_s1"
    output = failed.with_suffix(".txt").read_text()
    assert "Traceback" in output
    assert "in fails_once" in output
    assert status.read(failed / status.FILE).state == "failed"
    second = grid.run(own_functions.fails_once, **QUIET)
    assert not second.failed
    assert (failed.parent / "g_s0/mine.txt").read_text() == "first"  # not called again
    assert (failed / "mine.txt").read_text() == "second"
    assert status.read(failed / status.FILE).state == "finished"
    assert (failed.parent / "g_s1.kept-1/mine.txt").read_text() == "first"
    assert "g_s1.kept-1" in failed.with_suffix(".txt").read_text()


def test_what_was_moved_aside_is_no_run_of_the_grid(tmp_path):
    for name in "g_s0", "g_s0.kept-1":
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").touch()
    assert finding.directories([str(tmp_path)]) == [tmp_path / "g_s0"]
    kept = tmp_path / "g_s0.kept-1"
    assert finding.directories([str(kept)]) == [kept]


def test_other_settings_in_the_same_directory_are_refused(tmp_path):
    Grid("g").add("lr", 0.1).run(own_functions.note, **QUIET)
    with pytest.raises(UserError, match=r"lr was 0\.1 and is 0\.2"):
        Grid("g").add("lr", 0.2).run(own_functions.note, **QUIET)
    again = Grid("g").add("lr", 0.2).run(own_functions.note, overwrite=True, **QUIET)
    assert json.loads((again.finished[0] / "given.json").read_text()) == {"lr": 0.2}
    kept = tmp_path / "runs/g/g/g_s0.kept-1/given.json"
    assert json.loads(kept.read_text()) == {"lr": 0.1}


@pytest.mark.parametrize("how", ["exit", "system_exit"])
def test_a_function_that_ends_its_process_is_not_finished(grid, how):
    grid.add("how", how)
    for _ in range(2):
        assert [*grid.run(own_functions.leaves, **QUIET).failed] == ["g_s0"]


def test_functions_that_no_process_can_find_are_refused(grid, tmp_path):
    def local(directory, lr):
        pass

    class Holder:
        def method(self, directory, lr):
            pass

    grid.add("lr", [0.1])
    partial = functools.partial(own_functions.takes_lr, lr=1)
    for fn in (lambda directory, lr: None, local, Holder().method, partial, 3, "no"):
        with pytest.raises(UserError, match="function"):
            grid.run(fn, **QUIET)
    with pytest.raises(UserError, match="partial"):  # it names what it is about
        grid.run(partial, **QUIET)
    assert not (tmp_path / "runs").exists()


def test_a_function_from_a_prompt_is_refused(tmp_path):
    lines = "import jaxrl\ndef f(directory, lr): pass\n"
    lines += "jaxrl.Grid('g').add('lr', 1).run(f)\n"
    for command in [sys.executable, "-c", lines], [sys.executable, "-"]:
        done = subprocess.run(command, input=lines, capture_output=True, text=True)
        assert "move it to a file" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"lrate": [0.1]}, "lrate"),
        ({"lr": [0.1], "directory": ["x"]}, "directory"),
        ({"lr": [object()]}, "numbers"),
        ({"lr": [0.1], "seed": ["a"]}, "seed"),
        ({"seed": [1]}, "no parameter"),
        ({}, "missing"),
    ],
)
def test_what_the_function_cannot_take_is_refused(settings, word, grid, tmp_path):
    for key, value in settings.items():
        grid.add(key, value)
    with pytest.raises(UserError, match=word):
        grid.run(own_functions.takes_lr, **QUIET)
    assert not (tmp_path / "runs").exists()


def test_a_script_can_run_its_own_function(tmp_path):
    body = """
        import jaxrl

        def call(directory, lr):
            (directory / "name").write_text(__name__)

        if __name__ == "__main__":
            print(jaxrl.Grid("g").add("lr", [1, 2]).run(call).failed)
    """
    code, printed = script(tmp_path, body)
    assert code == 0, printed
    assert "2 of 2 finished" in printed
    assert len(list(tmp_path.glob("runs/g/*/*/name"))) == 2


def test_a_script_without_a_guard_does_not_start_its_grid_again(tmp_path):
    body = """
        import jaxrl

        def call(directory, lr):
            pass

        print(jaxrl.Grid("g").add("lr", [1]).run(call).failed)
    """
    code, printed = script(tmp_path, body)
    assert code == 0, printed
    assert "__main__" in printed
    assert "1 failed" in printed


@pytest.mark.parametrize("fn", [own_functions.later, own_functions.yields])
def test_functions_whose_call_runs_nothing_are_refused(fn, grid, tmp_path):
    with pytest.raises(UserError, match="plain function"):
        grid.add("lr", [1]).run(fn, **QUIET)
    assert not (tmp_path / "runs").exists()


def test_a_function_under_the_guard_of_its_script_is_refused(tmp_path):
    body = """
        import jaxrl

        if __name__ == "__main__":
            def call(directory, lr):
                pass

            jaxrl.Grid("g").add("lr", [1]).run(call)
    """
    code, printed = script(tmp_path, body)
    assert code
    assert "call is under" in printed
    assert not (tmp_path / "runs").exists()


def test_a_name_stands_for_a_function(grid):
    summary = grid.add("lr", [1]).run("own_functions:takes_lr", **QUIET)
    assert not summary.failed
    absent = Grid("h").add("lr", [1]).run("own_functions:nothing", **QUIET)
    assert "nothing" in absent.failed["h_s0"]


def test_a_time_limit_stops_a_function_and_frees_its_process(grid, tmp_path):
    summary = grid.add("seed", [0]).run(own_functions.waits, time_limit=3, **QUIET)
    assert "longer" in summary.failed["g_s0"]
    run = tmp_path / "runs/g/g/g_s0"
    assert status.read(run / status.FILE).state == "interrupted"
    assert not is_alive(int((run / "pid").read_text()))


def test_a_stopped_training_inside_of_a_function_is_not_finished(tmp_path):
    pid = tmp_path / "runs/g/g/g_s0/pid"
    body = """
        import jaxrl, own_functions

        if __name__ == "__main__":
            jaxrl.Grid("g").add("seed", [0]).run(own_functions.trains)
    """
    (tmp_path / "s.py").write_text(textwrap.dedent(body))
    with subprocess.Popen([sys.executable, "s.py"], cwd=tmp_path) as process:
        wait_for(lambda: list(tmp_path.glob("runs/g/g/g_s0/*/*/progress.csv")), 120)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert status.read(tmp_path / "runs/g/g/g_s0.json").state == "interrupted"
    assert not is_alive(int(pid.read_text()))


def test_calls_end_with_a_killed_runner(tmp_path):
    body = """
        import jaxrl, own_functions

        if __name__ == "__main__":
            jaxrl.Grid("g").add("seed", [0, 1]).run(own_functions.waits, jobs=2)
    """
    (tmp_path / "s.py").write_text(textwrap.dedent(body))
    with subprocess.Popen([sys.executable, "s.py"], cwd=tmp_path) as process:
        files = [tmp_path / f"runs/g/g/g_s{seed}/pid" for seed in (0, 1)]
        wait_for(lambda: all(x.exists() and x.read_text() for x in files))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    wait_for(lambda: not any(is_alive(int(x.read_text())) for x in files), 10)


def test_print_shows_settings_shorthands_values_and_counts(capsys):
    grid = Grid("lrs").add("rate", [0.1, 0.2], "r").add("hidden", [32, 64])
    grid.add("seed", [0, 1, 2]).print()
    printed = capsys.readouterr().out
    assert "lrs" in printed
    assert re.search(r"rate +\[r\]", printed)
    for value in ("0.1", "0.2", "32", "64"):
        assert re.search(rf"^ +{value}$", printed, re.M)
    assert re.search(r"counting seeds: +12$", printed, re.M)
    assert re.search(r"not counting seeds: +4$", printed, re.M)


def test_a_log_inside_of_a_call_is_read_and_does_not_decide_how_it_ended(tmp_path):
    grid = Grid("g").add("seed", [0, 1]).add("fails", [True])
    first = grid.run(own_functions.logs, **QUIET)
    assert [*first.failed] == ["g_s0", "g_s1"]
    again = grid.run(own_functions.logs, **QUIET)  # in empty directories
    assert [*again.failed.values()] == ["ValueError: after the log"] * 2
    grid = Grid("h").add("seed", [0, 1]).add("fails", [False])
    done = grid.run(own_functions.logs, **QUIET)
    assert not done.failed
    records = [
        reading.record(path) for path in (*done.finished, tmp_path / "runs/g/g/g_s0")
    ]
    assert [record.state for record in records] == ["finished", "finished", "failed"]
    assert [len(record.progress["AverageEpRet"]) for record in records] == [2, 2, 2]
    assert len(finding.directories([str(tmp_path / "runs/g")])) == 2


def test_calls_that_log_nothing_are_listed_beside_failed_ones(grid, tmp_path):
    grid.add("seed", [0, 1]).add("where", str(tmp_path))
    grid.run(own_functions.fails_once, **QUIET)
    runs = overview.overviews([str(tmp_path / "runs")])
    assert [(Path(one.run).name, one.state) for one in runs] == [
        ("g_s0", "finished"),
        ("g_s1", "failed"),
    ]
    grid.run(own_functions.fails_once, **QUIET)
    runs = overview.overviews([str(tmp_path / "runs")])
    assert [one.state for one in runs] == ["finished", "finished"]
