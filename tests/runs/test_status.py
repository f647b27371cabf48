"""The status of a run: written as data, whole, and read without trusting it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_runs import log, write_run
from small_grids import TINY, finished_command, in_a_line, surroundings  # noqa: F401
from small_runs import train

import jaxrl
from jaxrl.cli import main as main_module
from jaxrl.errors import UserError
from jaxrl.files import write_atomically
from jaxrl.runs import contents, directory, reading, status
from jaxrl.runs.status import Attempt, Status
from jaxrl.training import loop


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "x"
    write_atomically(file, "old\r\n")
    assert file.read_bytes() == b"old\r\n"

    def full(number):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_atomically(file, b"new")
    assert file.read_bytes() == b"old\r\n"
    assert os.listdir(tmp_path) == ["x"]
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    plain = tmp_path / "plain"
    plain.touch()
    assert file.stat().st_mode == plain.stat().st_mode  # others may read it as usual


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / "x").symlink_to(other)
    write_atomically(tmp_path / "x", "new")
    assert (other.read_text(), (tmp_path / "x").read_text()) == ("kept", "new")


def test_a_status_is_read_back(tmp_path):
    given = Status(state="failed", reason="é\n", exit_code=1, step=7, total_steps=9)
    status.write(tmp_path / "s", given)
    assert status.read(tmp_path / "s") == given
    assert status.read(tmp_path / "absent") is None
    known = json.loads((tmp_path / "s").read_text())
    (tmp_path / "s").write_text(json.dumps(known | {"of a later version": 1}))
    assert status.read(tmp_path / "s") == given


BAD = [
    *("", "[", "[" * 50_000, "[]", "3", "{}", '{"state": "dancing"}'),
    *('{"state": ["failed"]}', '{"state": "failed", "reason": 3}'),
    *('{"state": "failed", "step": "many"}', '{"state": "failed", "step": true}'),
    *('{"state": "failed", "exit_code": []}', '{"state": "failed", "time": "now"}'),
    f'{{"state": "failed", "step": {"9" * 400}}}',
]


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_a_strangers_status_is_none(tmp_path, text):
    (tmp_path / "s").write_text(text)
    assert status.read(tmp_path / "s") is None


@pytest.mark.parametrize(
    ("error", "state", "code", "word"),
    [
        (UserError("gamma is 2"), "failed", 2, "gamma is 2"),
        (FloatingPointError("a loss is NaN"), "failed", 1, "a loss is NaN"),
        (OSError(28, "No space left", "x"), "failed", 1, "No space left"),
        (RuntimeError("boom"), "failed", 1, "RuntimeError"),
        (SystemExit(3), "failed", 3, "3"),
        (SystemExit("bye"), "failed", 1, "bye"),
        (SystemExit(), "failed", 0, "exit"),
        (KeyboardInterrupt(), "interrupted", 130, "SIGINT"),
    ],
)
def test_an_error_has_a_state_and_an_exit_code(error, state, code, word):
    found = Status.from_error(error)
    assert (found.state, found.exit_code) == (state, code)
    assert word in found.reason


def attempt(run, error, before=None, writes=True):
    """Ends with the error at step 8 of 10."""
    with pytest.raises(type(error)), Attempt(run, before, writes) as one:  # noqa: PT012
        one.start(5, 10)
        if writes:
            assert status.read(run / status.FILE).state == "running"
        one.step = 8
        raise error


def test_an_attempt_that_is_refused_leaves_the_status_as_it_was(tmp_path):
    (tmp_path / "config.yaml").touch()
    status.write(tmp_path / status.FILE, Status(state="failed", attempt=3, step=5))
    before = status.read(tmp_path / status.FILE)
    attempt(tmp_path, UserError("no"), before)
    assert status.read(tmp_path / status.FILE) == before
    attempt(tmp_path, RuntimeError("boom"), before)
    after = status.read(tmp_path / status.FILE)
    assert (after.state, after.step, after.total_steps) == ("failed", 8, 10)
    assert after.attempt == 4


def test_a_rank_that_fails_says_so_and_one_that_ends_says_nothing(tmp_path):
    (tmp_path / "config.yaml").touch()
    Attempt(tmp_path, None).start(0, 10)
    with Attempt(tmp_path, None, writes=False) as other:
        other.start(0, 10)
        other.end(Status(state="finished"))
    assert status.read(tmp_path / status.FILE).state == "running"
    attempt(tmp_path, RuntimeError("boom"), writes=False)
    assert "boom" in status.read(tmp_path / status.FILE).reason


def test_a_run_killed_as_it_started_does_not_block_its_directory(tmp_path):
    Attempt(tmp_path, None).start(0, 10)
    with directory.locked(tmp_path):
        contents.refuse_run(tmp_path)
    (tmp_path / "config.yaml").touch()
    with pytest.raises(UserError):
        contents.refuse_run(tmp_path)


# A whole run


def files(path):
    return {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("step", ["description", "config_yaml"])
def test_overwriting_removes_nothing_before_the_new_run_is_described(
    tmp_path, monkeypatch, step
):
    run = train(tmp_path, "ppo", "CartPole-v1").directory
    before = files(run)

    def broken(*_):
        raise RuntimeError("cannot be described")

    monkeypatch.setattr(directory, step, broken)
    with pytest.raises(RuntimeError, match="described"):
        train(tmp_path, "ppo", "CartPole-v1", overwrite=True)
    assert files(run) == before
    assert reading.record(run).state == "finished"


def test_a_new_run_in_the_place_of_another_starts_with_attempt_1(tmp_path):
    for _ in range(2):
        run = train(tmp_path, "ppo", "CartPole-v1", overwrite=True).directory
    known = reading.record(run).status
    assert (known.state, known.attempt, known.step) == ("finished", 1, 128)


def test_a_failure_is_kept_with_its_step_and_exit_code(tmp_path):
    kwargs = {"env_kwargs": {"fault": "reward"}}
    with pytest.raises(FloatingPointError):
        train(tmp_path, "ppo", "own_envs:Count-v0", **kwargs)
    (file,) = tmp_path.rglob(status.FILE)
    known = status.read(file)
    assert (known.state, known.exit_code) == ("failed", 1)
    assert "reward" in known.reason


def test_a_run_says_first_where_it_writes(tmp_path, capsys):
    settings = {"exp_name": "x", "out": str(tmp_path), "hidden": 8}
    settings |= {"steps_per_epoch": 64, "epochs": 1, "minibatches": 1}
    result = jaxrl.train("ppo", "CartPole-v1", **settings)
    assert str(result.directory) in capsys.readouterr().out.splitlines()[0]
    jaxrl.resume(result.directory)
    assert str(result.directory) in capsys.readouterr().out.splitlines()[0]
    jaxrl.resume(result.directory, screen=False)
    assert capsys.readouterr().out == ""


def test_a_second_ctrl_c_leaves_an_interrupted_run(tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "collect", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, "ppo", "CartPole-v1")
    (file,) = tmp_path.rglob(status.FILE)
    known = status.read(file)
    assert (known.state, known.signal) == ("interrupted", "SIGINT")


# Between processes


@pytest.mark.parametrize(
    ("raised", "state"), [(UserError("x"), "failed"), (RuntimeError("x"), "failed")]
)
def test_a_command_writes_its_outcome_where_it_was_asked_to(
    tmp_path, monkeypatch, raised, state
):
    class Command:
        @staticmethod
        def main(words):
            assert "JAXRL_STATUS" not in os.environ  # so that no child writes there
            if words:
                raise raised
            return 0

    monkeypatch.setattr(main_module.importlib, "import_module", lambda name: Command)
    for words, expected in ([], "finished"), (["fail"], state):
        monkeypatch.setenv("JAXRL_STATUS", str(tmp_path / "outcome.json"))
        (tmp_path / "outcome.json").unlink(missing_ok=True)  # as a runner does
        try:
            code = main_module.main(["train", *words])
        except RuntimeError:
            code = 1
        found = status.read(tmp_path / "outcome.json")
        assert (found.state, found.exit_code) == (expected, code)
    main_module.main(["train"])  # which nobody asked
    assert status.read(tmp_path / "outcome.json") == found


GARBLE = """
import sys

class Garbled:
    def __init__(self, stream):
        self._stream = stream

    def write(self, text):
        letters = ("x" if letter.isalnum() else letter for letter in text)
        return self._stream.write("".join(letters).replace(": ", "!").replace(";", "!"))

    def __getattr__(self, name):
        return getattr(self._stream, name)

sys.stdout, sys.stderr = Garbled(sys.stdout), Garbled(sys.stderr)
"""


def test_no_printed_word_changes_what_a_grid_does(tmp_path, monkeypatch):
    """Every letter that a process prints is another one, and nothing else differs."""
    words = in_a_line("g", **{"env_kwargs:fault[f]": ["none", "reward"]})
    words += ["--retries", "1", "--jobs", "2"]
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/sitecustomize.py").write_text(GARBLE)
    path = os.environ["PYTHONPATH"]
    seen = []
    for out, paths in ("plain", path), ("odd", f"{tmp_path / 'odd'}:{path}"):
        monkeypatch.setenv("PYTHONPATH", paths)
        code, printed = finished_command([*words, "--out", f"{out}-runs"])
        assert ("failed" in printed) == (out == "plain")
        root = tmp_path / f"{out}-runs"
        found = [reading.record(p.parent) for p in sorted(root.rglob("config.yaml"))]
        states = [(run.name, run.state, run.status.attempt) for run in found]
        outcomes = [status.read(file) for file in sorted(root.rglob("*_s0.json"))]
        ends = [(one.state, one.reason, one.exit_code) for one in outcomes]
        seen.append((code, states, ends))
    assert seen[0] == seen[1]
    assert [state for _, state, _ in seen[0][1]] == ["finished", "failed"]
    assert seen[0][0] == 1


def test_a_run_of_a_grid_that_kills_itself_is_a_failure_with_its_signal(tmp_path):
    (tmp_path / "suicidal.py").write_text("import os; os.kill(os.getpid(), 9)")
    words = ["ppo", "--name", "g", "--env", "suicidal:X-v0"]
    code, printed = finished_command(words)
    assert code == 1, printed
    (file,) = (tmp_path / "runs/g").rglob("*_s0.json")
    found = status.read(file)
    assert (found.state, found.signal) == ("failed", "SIGKILL")
    assert "SIGKILL" in printed


@pytest.mark.parametrize(
    ("trouble", "word"), [("raises", "Error"), ("is killed", "SIGKILL")]
)
def test_a_grid_knows_why_one_rank_of_a_run_failed(tmp_path, trouble, word):
    pytest.importorskip("mpi4py")
    words = ["ppo", "--name", "g", "--env", "own_envs:Trouble-v0", "--num_procs", "2"]
    words += ["--env_kwargs", f"{{trouble: {trouble}}}", "--steps", "1000000"]
    words += ["--hidden", "8", "--steps_per_epoch", "64", "--minibatches", "1"]
    code, printed = finished_command(words)
    assert code == 1, printed
    (file,) = (tmp_path / "runs/g").rglob("*_s0.json")
    found = status.read(file)
    assert found.state == "failed"
    assert word in found.reason
    assert found.reason in printed
    (run,) = (tmp_path / "runs/g").rglob("config.yaml")
    state = reading.record(run.parent).state
    assert state == ("failed" if trouble == "raises" else "interrupted")


def test_a_signal_is_in_the_outcome_of_a_stopped_run(tmp_path):
    words = ["ppo", "--env", "CartPole-v1", "--exp_name", "x", "--out", tmp_path]
    words += [f"--{name}={x}" for name, x in (TINY | {"epochs": 100_000}).items()]
    command = [sys.executable, "-m", "jaxrl", "train", *map(str, words)]
    environment = os.environ | {"JAXRL_STATUS": str(tmp_path / "outcome.json")}
    run = Path(tmp_path / "x" / "x_s0")
    quiet = {"stdout": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen(command, **quiet) as process:
        assert str(run) in process.stdout.readline()
        process.stdout.readline()  # the first epoch
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    for file in tmp_path / "outcome.json", run / status.FILE:
        found = status.read(file)
        assert (found.state, found.signal) == ("interrupted", "SIGTERM")
        assert found.exit_code == process.returncode


def test_reading_a_status_needs_no_jax():
    code = "import jaxrl.runs.status, jaxrl.runs.failures, jaxrl.cli.main, sys; "
    code += "raise SystemExit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_launcher_notes_why_its_ranks_died_and_ls_shows_it(tmp_path, capsys):
    run = write_run(tmp_path, "x", 0, log([100], [1.0]), steps=1000)
    why = "rank 1 on host was killed by SIGKILL"
    status.note_reason(run, None, 137, why)
    assert status.read(run / status.FILE) is None  # it never started
    Attempt(run, None).start(100, 1000)
    before = status.read(run / status.FILE)
    status.note_reason(run, before, 137, why)
    assert status.read(run / status.FILE) == before  # of an earlier start
    status.note_reason(run, None, 137, why)
    known = status.read(run / status.FILE)
    assert (known.state, known.reason, known.exit_code) == ("interrupted", why, 137)
    assert (known.step, known.attempt) == (before.step, before.attempt)
    assert main_module.main(["ls", str(tmp_path)]) == 0
    assert f"{run}: {why}" in capsys.readouterr().err
    status.update(run, state="failed", reason="it broke")
    status.note_reason(run, None, 1, why)
    assert status.read(run / status.FILE).reason == "it broke"  # a rank's is kept
