"""A run that comes from a stranger: what it names, links to or hides does no harm.

Nothing outside of it is written, removed or shown, and nothing that replaces a file
makes a command wait or fill the memory.
"""

import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from small_runs import SMALL_OFF, train

import jaxrl
from jaxrl import files
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.experiments import grid_file, job
from jaxrl.runs import arrays, directory, status
from jaxrl.training import loop
from jaxrl.training.learner import Learner

SECRET = "the-secret-of-the-outside"
SECONDS = 20  # that a command may take
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@contextlib.contextmanager
def in_time():
    """Fails, and does not wait, where the code inside takes too long."""

    def late(number, frame):
        raise AssertionError(f"took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ended(words, capsys):
    """The exit code of a command that ends in time, and what it printed."""
    with in_time():
        code = main([str(word) for word in words])
    shown = capsys.readouterr()
    assert code in (0, 1, 2), shown
    assert "Traceback" not in shown.err
    return code, shown


def refused(words, capsys):
    """The sentence with which a command refuses."""
    code, shown = ended(words, capsys)
    assert code == 2, shown
    return shown.err


def tree(directory):
    """Every file under a directory, with its content."""
    return {p: p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    done = train(tmp_path_factory.mktemp("run"), "sac", "Pendulum-v1", exp_name="x")
    return done.directory


@pytest.fixture
def run(finished, tmp_path, monkeypatch):
    """A copy of a run in the directory `in`, from which commands are called."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(finished, Path("in/x/x_s0")))


@pytest.fixture
def outside(tmp_path):
    """A directory that no command may change or show."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret").write_text(f"{SECRET}\n")
    (path / "status.json").write_text(
        json.dumps({"state": "failed", "reason": SECRET, "step": 1})
    )
    (path / "progress.csv").write_text(f"TotalEnvInteracts,{SECRET}\n1,2\n")
    (path / "config.yaml").write_text(f"algo: {SECRET}\nenv: {SECRET}\n")
    before = tree(path)
    yield path
    assert tree(path) == before


@pytest.fixture
def no_training(monkeypatch):
    monkeypatch.setattr(loop, "run_loop", lambda training: None)
    monkeypatch.setattr(Learner, "compile", lambda learner: None)


def changed_config(run, **changes):
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump(config | changes))


def with_settings_in_checkpoints(run):
    """Gives the checkpoints the settings of config.yaml, with right checksums."""
    for manifest in run.glob("checkpoints/*/manifest.json"):
        shutil.copy(run / "config.yaml", manifest.with_name("run.yaml"))
        total = hashlib.sha256((run / "config.yaml").read_bytes()).hexdigest()
        sums = json.loads(manifest.read_text()) | {"run.yaml": total}
        manifest.write_text(json.dumps(sums))


# Something else instead of a file


def pipe(path, outside):
    os.mkfifo(path)


def device(path, outside):
    path.symlink_to("/dev/zero")


def huge(path, outside):
    with path.open("wb") as file:
        file.truncate(10**12)  # sparse: takes no room


def folder(path, outside):
    path.mkdir()


def link(path, outside):
    """To a file of the same kind, where there is one: nothing but the link is odd."""
    same = outside / path.name
    path.symlink_to(same if same.exists() else outside / "secret")


def dangling(path, outside):
    path.symlink_to(outside / "absent")


KINDS = [pipe, device, huge, folder, link, dangling]
COMMANDS = {
    "ls": ["in"],
    "report": ["in", "-o", "page.html"],
    "plot": ["in", "-o", "p.svg"],
    "eval": ["in/x/x_s0", "--episodes", "1", "--max_len", "2"],
    "export": ["in/x/x_s0", "-o", "p.npz", "--overwrite"],
    "rerun": ["in/x/x_s0", "--out", "out", "--exp_name", "again"],
    "resume": ["in/x/x_s0"],
    "verify": ["in/x/x_s0", "--epochs", "1"],
}
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def reachable(run):
    """The files of a run: of the models the last, of a directory of arrays one file."""
    found = {}
    for file in sorted(run.rglob("*")):
        inside = file.relative_to(run).parts
        if file.is_file() and (inside[0] != "models" or inside[1] == "last"):
            found[file.parent if "arrays" in inside else file] = file
    return list(found.values())


@kinds
@pytest.mark.parametrize("command", COMMANDS)
def test_whatever_is_in_the_place_of_a_file_a_command_ends(
    run, outside, kind, command, capsys, no_training
):
    original = run.with_name("original")
    run.rename(original)
    for file in reachable(original):
        shutil.rmtree(run, ignore_errors=True)
        shutil.rmtree("out", ignore_errors=True)
        shutil.copytree(original, run)
        place = run / file.relative_to(original)
        place.unlink()
        kind(place, outside)
        _, shown = ended([command, *COMMANDS[command]], capsys)
        assert SECRET not in shown.out + shown.err, place
        for written in map(Path, ("page.html", "p.svg")):
            assert not written.exists() or SECRET not in written.read_text()


@kinds
@pytest.mark.parametrize(
    "words",
    [["train", "--config"], ["grid"], ["search"]],
    ids=["train", "grid", "search"],
)
def test_a_file_of_settings_is_a_regular_file(
    words, kind, tmp_path, outside, monkeypatch, capsys, no_training
):
    monkeypatch.chdir(tmp_path)
    kind(Path("x.yaml"), outside)
    refused([*words, "x.yaml"], capsys)


@pytest.mark.parametrize("suffix", ["", ".txt", ".yaml", ".json"])
@kinds
def test_a_strangers_grid_ends_and_writes_nothing_elsewhere(
    suffix, kind, tmp_path, outside, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    settings = {"algo": "sac", "env": "Pendulum-v1", "name": "x", "out": "runs"}
    small = SMALL_OFF | {"hidden": [8], "steps": 1, "seed": 0}
    Path("x.yaml").write_text(yaml.safe_dump(settings | small))
    (variant,) = grid_file.read("x.yaml").variants
    place = variant.path.with_name(variant.name + suffix) if suffix else variant.path
    place.parent.mkdir(parents=True)
    kind(place, outside)
    ended(["grid", "x.yaml", "--dry_run"], capsys)
    with in_time(), contextlib.suppress(OSError):
        one = job.Job.from_variant(variant)
        one.start()
        if one.process:
            one.process.kill()
            one.process.wait()
    _, shown = ended(["ls", "runs"], capsys)
    assert SECRET not in shown.out + shown.err


@kinds
def test_a_storage_of_trials_is_a_regular_file(
    kind, tmp_path, outside, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    text = "{name: x, algo: sac, env: Pendulum-v1, space: {lr: {uniform: [0.1, 1]}}}"
    Path("x.yaml").write_text(text)
    place = Path("runs/x/trials.db")
    place.parent.mkdir(parents=True)
    kind(place, outside)
    if kind is not huge:
        assert "trials.db" in refused(["search", "x.yaml"], capsys)


def test_a_state_that_unpacks_to_any_size_is_not_read(run, capsys, monkeypatch):
    monkeypatch.setattr(arrays, "MAX_BYTES", 100)
    assert "bytes" in refused(["resume", run], capsys)


def test_a_run_cannot_start_thousands_of_processes(run, capsys):
    changed_config(run, num_procs=9999)
    for command in ("resume", "rerun"):
        assert "num_procs" in refused([command, run], capsys)


def test_a_run_cannot_make_billions_of_environments(run, capsys):
    config = yaml.safe_load((run / "config.yaml").read_text())
    changed_config(run, settings=config["settings"] | {"num_envs": 10**9})
    with_settings_in_checkpoints(run)
    for command in ("resume", "rerun"):
        assert "num_envs" in refused([command, run], capsys)


def test_resume_says_to_remove_what_is_in_the_place_of_the_lock(run, capsys):
    (run / ".lock").unlink(missing_ok=True)
    os.mkfifo(run / ".lock")
    said = refused(["resume", run], capsys)
    assert "remove .lock" in said
    assert "--out" not in said


def test_resume_has_advice_where_nothing_can_be_written(run, capsys, monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(directory, "_try_lock", denied)
    said = refused(["resume", run], capsys)
    assert "copy" in said
    assert "--out" not in said


# Writing and removing elsewhere


def test_links_under_temporary_names_are_not_written_through(run, outside, capsys):
    names = (".config.yaml.new", ".progress.csv.new", ".status.json.new", ".lock.new")
    for name in (*names, ".new-config.yaml", ".new-"):
        (run / name).symlink_to(outside / "secret")
    assert ended(["resume", run, "--steps", "140"], capsys)[0] == 0


def test_where_a_run_lies_decides_where_it_is_and_not_its_settings(
    run, tmp_path, outside, capsys, no_training
):
    # What is there could be taken for an earlier run, which may be overwritten.
    victim = Path(shutil.copytree(run, outside / "x/x_s0"))
    before = tree(victim)
    changed_config(run, out=str(outside), overwrite=True)
    for words in (["rerun", run], ["resume", run], ["rerun", run, "--seed", "3"]):
        assert ended(words, capsys)[0] == 0, words
    assert tree(victim) == before
    assert {path.name for path in Path("in").iterdir()} == {"x", "x-rerun"}
    assert {path.name for path in Path("in/x").iterdir()} == {"x_s0", "x_s3"}
    shutil.rmtree(outside / "x")


def test_a_run_in_another_place_is_repeated_beside_it(
    run, outside, capsys, no_training
):
    moved = run.rename("moved")
    changed_config(moved, out=str(outside), overwrite=True, exp_name="y")
    assert ended(["rerun", moved], capsys)[0] == 0
    assert Path("y/y_s0/config.yaml").exists()
    # The same again would replace what is there by now, as the file asks.
    assert "--overwrite" in refused(["rerun", moved], capsys)


def test_settings_cannot_hide_where_they_ask_to_write(
    run, outside, capsys, no_training
):
    config = yaml.safe_load((run / "config.yaml").read_text())
    hidden = {"out": str(outside), "overwrite": True, "exp_name": "z"}
    changed_config(run, settings=config["settings"] | hidden)
    ended(["rerun", run], capsys)
    assert {path.name for path in Path("in").iterdir()} <= {"x", "x-rerun"}


# Hard links, and the network


def test_an_event_file_is_a_new_one(run, outside, capsys):
    now = int(time.time())
    host = socket.gethostname()
    for second in range(now, now + 60):
        name = f"events.out.tfevents.{second}.{host}.{120:012}"
        os.link(outside / "secret", run / "tb" / name)
    assert ended(["resume", run, "--steps", "140"], capsys)[0] == 0


def test_no_file_of_a_run_is_written_through_a_hard_link(run, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy, copy_function=os.link)  # as `cp -al` makes a backup
    before = tree(copy)
    assert ended(["resume", run, "--steps", "140"], capsys)[0] == 0
    assert tree(copy) == before


def test_the_output_of_a_grid_is_not_written_through_a_hard_link(outside, tmp_path):
    output = tmp_path / "x.txt"
    os.link(outside / "secret", output)
    with files.append_to(output) as file:
        file.write(b"more")
    assert output.read_text() == f"{SECRET}\nmore"


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal", "-shm"])
def test_a_storage_of_trials_has_one_name(
    suffix, outside, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    text = "{name: x, algo: sac, env: Pendulum-v1, space: {lr: {uniform: [0.1, 1]}}}"
    Path("x.yaml").write_text(text)
    Path("runs/x").mkdir(parents=True)
    os.link(outside / "secret", f"runs/x/trials.db{suffix}")
    assert "hard link" in refused(["search", "x.yaml"], capsys)


@pytest.mark.parametrize("words", [["resume", "--steps", "140"], ["rerun"]])
def test_a_file_cannot_ask_to_send_data_over_the_network(
    run, words, capsys, monkeypatch
):
    monkeypatch.setenv("WANDB_MODE", "offline")
    changed_config(run, wandb=True)
    with_settings_in_checkpoints(run)
    code, shown = ended([words[0], run, *words[1:]], capsys)
    assert code == 0
    assert "--wandb" in shown.out
    assert not list(Path("in").rglob("wandb"))


@pytest.mark.parametrize("odd", [5, "abc", {"a": 1}, [[]], [{"step": "x"}]])
def test_odd_notes_of_longer_runs_end_in_a_sentence(run, odd, capsys, no_training):
    changed_config(run, extended=odd)
    with_settings_in_checkpoints(run)
    for words in (["resume", run, "--steps", "140"], ["verify", run], ["ls", "in"]):
        ended(words, capsys)


def test_a_table_with_odd_names_ends_in_a_sentence(run, capsys):
    header, *rows = (run / "progress.csv").read_text().splitlines()
    odd = "a\x1b[2J\x0bb"
    lines = [f"{header},{odd}", *(f"{row},1" for row in rows)]
    (run / "progress.csv").write_text("\n".join(lines) + "\n")
    for command in ("ls", "plot", "report", "verify"):
        _, shown = ended([command, *COMMANDS[command]], capsys)
        assert "\x1b[2J" not in shown.out + shown.err


@pytest.mark.parametrize("odd", [None, 5, [1], {"a": 1}])
def test_a_checkpoint_without_a_state_cannot_be_verified(run, odd, capsys):
    for manifest in run.glob("checkpoints/*/manifest.json"):
        file = manifest.with_name("rest.json")
        rest = json.loads(file.read_text())
        rest["content"]["state"] = odd
        file.write_text(json.dumps(rest))
        total = hashlib.sha256(file.read_bytes()).hexdigest()
        sums = json.loads(manifest.read_text()) | {"rest.json": total}
        manifest.write_text(json.dumps(sums))
    assert "damaged" in refused(["verify", run, "--epochs", "2"], capsys)


@pytest.mark.parametrize("name", ["epoch", "elapsed", "best_return", "update_pending"])
def test_a_checkpoint_with_an_odd_counter_cannot_be_resumed(run, name, capsys):
    for manifest in run.glob("checkpoints/*/manifest.json"):
        file = manifest.with_name("rest.json")
        rest = json.loads(file.read_text())
        rest["content"][name] = []
        file.write_text(json.dumps(rest))
        total = hashlib.sha256(file.read_bytes()).hexdigest()
        sums = json.loads(manifest.read_text()) | {"rest.json": total}
        manifest.write_text(json.dumps(sums))
    assert name in refused(["resume", run, "--steps", "180"], capsys)


def test_settings_that_no_compiler_takes_are_refused(run, tmp_path, capsys):
    config = yaml.safe_load((run / "config.yaml").read_text())
    changed_config(run, settings=config["settings"] | {"hidden": [4] * 3000})
    assert "hidden" in refused(["rerun", run], capsys)
    with in_time(), pytest.raises(UserError, match="too large"):
        train(tmp_path, "ppo", "CartPole-v1", train_pi_iters=10**12)


# --overwrite


def overwriting(path):
    return train(path, "vpg", "Pendulum-v1", exp_name="thesis", overwrite=True)


def test_a_directory_that_no_run_made_is_not_removed(tmp_path, capsys):
    place = tmp_path / "thesis/thesis_s0"
    place.mkdir(parents=True)
    (place / "notes.txt").write_text("years of work")
    with pytest.raises(UserError, match="no run"):
        overwriting(tmp_path)
    (place / "config.yaml").write_text("colour: blue")  # of another program
    with pytest.raises(UserError, match="no run"):
        overwriting(tmp_path)
    assert (place / "notes.txt").read_text() == "years of work"
    assert (place / "config.yaml").read_text() == "colour: blue"
    assert {file.name for file in place.iterdir()} == {"notes.txt", "config.yaml"}


def test_what_a_user_put_into_a_run_is_moved_aside(tmp_path, capsys):
    place = overwriting(tmp_path).directory
    (place / "notes.txt").write_text("mine")
    (place / "plots").mkdir()
    (place / "plots/a.png").write_text("mine, too")
    (place / "models/notes.txt").write_text("as well")
    for number in (1, 2):
        jaxrl.train(
            *("vpg", "Pendulum-v1"),
            **{"out": str(tmp_path), "exp_name": "thesis", "overwrite": True},
            **{"steps_per_epoch": 64, "epochs": 1, "hidden": "8"},
        )
        shown = capsys.readouterr()
        kept = place.with_name(f"thesis_s0.kept-{number}")
        assert str(kept) in shown.out + shown.err
        assert not (place / "notes.txt").exists()
        assert (kept / "notes.txt").read_text() == "mine"
        (place / "notes.txt").write_text("mine")
    first = place.with_name("thesis_s0.kept-1")
    assert (first / "plots/a.png").read_text() == "mine, too"
    assert (first / "models/notes.txt").read_text() == "as well"


def test_a_run_that_was_killed_early_can_be_overwritten(tmp_path):
    place = tmp_path / "thesis/thesis_s0"
    place.mkdir(parents=True)
    (place / ".lock").touch()
    (place / ".new-0123456789abcdef.json").touch()
    status.Attempt(place, None).start(0, 10)
    done = overwriting(tmp_path).directory
    assert not list(done.glob(".new-*"))
    assert not list(tmp_path.glob("thesis/*kept*"))


def test_an_export_does_not_replace_another_policy(run, capsys):
    words = ["export", run, "-o", "p.npz"]
    assert ended(words, capsys)[0] == 0
    assert ended(words, capsys)[0] == 0  # the same again
    Path("p.npz").write_text("of another run")
    assert "--overwrite" in refused(words, capsys)
    assert Path("p.npz").read_text() == "of another run"
    assert ended([*words, "--overwrite"], capsys)[0] == 0
    assert Path("p.npz").read_bytes()[:2] == b"PK"


# Showing what is elsewhere


def test_a_report_shows_nothing_from_outside_of_a_run(run, outside, capsys):
    (run / "videos").mkdir(exist_ok=True)
    (run / "videos/x.mp4").symlink_to(outside / "secret")
    (run / "x.gif").symlink_to(outside / "secret")
    (run / "videos/all").symlink_to(outside)
    (outside / "y.mp4").write_text(SECRET)
    (run / "failure.txt").symlink_to(outside / "secret")
    (run / "status.json").unlink()
    (run / "status.json").symlink_to(outside / "status.json")
    os.mkfifo(run / "videos/pipe.mp4")
    assert ended(["report", "in", "-o", "page.html"], capsys)[0] == 0
    page = Path("page.html").read_text()
    (outside / "y.mp4").unlink()
    encoded = base64.b64encode(SECRET.encode()).decode()[:-4]
    assert SECRET not in page
    assert encoded not in page
    assert "pipe.mp4" not in page


# Aliases that stand for billions


@pytest.mark.parametrize("command", COMMANDS)
def test_yaml_does_not_expand_without_end(run, command, capsys):
    with (run / "config.yaml").open("a") as file:
        file.write(BOMB)
    code, shown = ended([command, *COMMANDS[command]], capsys)
    assert code == (0 if command == "ls" else 2), shown
    assert "aliases" in shown.err


@pytest.mark.parametrize("words", [["train", "--config"], ["grid"], ["search"]])
def test_yaml_of_settings_does_not_expand_without_end(
    words, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text(f"algo: sac\nenv: Pendulum-v1\n{BOMB}")
    assert "aliases" in refused([*words, "x.yaml"], capsys)


@pytest.mark.parametrize("text", ["0x" + "f" * 50_000, "&x [*x]", "{[1]: 2}"])
@pytest.mark.parametrize("command", COMMANDS)
def test_odd_values_in_settings_end_in_a_sentence(run, command, text, capsys):
    with (run / "config.yaml").open("a") as file:
        file.write(f"odd: {text}\n")
    ended([command, *COMMANDS[command]], capsys)


# One damaged run among others


@kinds
@pytest.mark.parametrize("file", ["config.yaml", "progress.csv"])
@pytest.mark.parametrize("command", ["ls", "plot", "report"])
def test_a_damaged_run_does_not_hide_the_others(
    run, outside, kind, file, command, capsys
):
    bad = Path(shutil.copytree(run, "in/bad/bad_s0"))
    (bad / file).unlink()
    kind(bad / file, outside)
    code, shown = ended([command, *COMMANDS[command]], capsys)
    assert code == 0
    assert "bad_s0" in shown.err
    assert len(shown.err.splitlines()) == 1
    if command == "ls":
        assert "damaged" in shown.out
        assert "finished" in shown.out
    elif command == "report":
        assert "x_s0" in Path("page.html").read_text()
    else:
        assert "1 run\n" in shown.out


def test_a_run_without_returns_does_not_hide_the_others(run, capsys):
    bad = Path(shutil.copytree(run, "in/bad/bad_s0"))
    (bad / "progress.csv").write_text("TotalEnvInteracts,Odd\n1,2\n")
    code, shown = ended(["plot", *COMMANDS["plot"]], capsys)
    assert code == 0
    assert "bad_s0" in shown.err


def test_a_run_whose_steps_go_down_does_not_hide_the_others(run, capsys):
    bad = Path(shutil.copytree(run, "in/bad/bad_s0"))
    header, *rows = (bad / "progress.csv").read_text().splitlines(keepends=True)
    (bad / "progress.csv").write_text("".join([header, *reversed(rows)]))
    for command in ("plot", "report", "ls"):
        code, shown = ended([command, *COMMANDS[command]], capsys)
        assert code == 0
        assert "bad_s0" in shown.err
        assert "do not increase" in shown.err


@pytest.mark.parametrize(
    "odd",
    [
        {"weight_0": np.zeros((1,) * 32, np.float32)},
        {"bias_1": np.zeros((2, 2), np.float32)},
        {"bias_1": np.zeros(3, np.float32), "weight_1": np.zeros((8, 3), np.float32)},
        {"low": np.full((1,) * 32, -2.0), "high": np.full((2,) * 5, 2.0)},
        {"low": np.full(5, -2.0), "high": np.full(5, 2.0)},
        {"log_std": np.zeros((1,) * 32, np.float32)},
        {"mean": np.zeros((1,) * 32), "std": np.ones((1,) * 32)},
        {"mean": np.zeros(3)},
        {"noise": "x"},
        {"clip": [1]},
        {"discrete": {"n": 1, "start": "x"}},
    ],
    ids=lambda odd: "-".join(odd),
)
def test_a_policy_whose_arrays_do_not_fit_ends_in_a_sentence(run, odd, capsys):
    file = run / "models/last/policy.npz"
    with np.load(file, allow_pickle=False) as archive:
        arrays_before = dict(archive)
    about = json.loads(str(arrays_before["about"]))
    changes = {k: x for k, x in odd.items() if isinstance(x, np.ndarray)}
    about |= {k: x for k, x in odd.items() if k not in changes}
    changed = arrays_before | changes | {"about": np.array(json.dumps(about))}
    np.savez(file, **changed)
    for command, words in (
        ("eval", ["--episodes", "1"]),
        ("video", ["-o", "x.gif", "--max_len", "2"]),
        ("export", ["-o", "x.onnx"]),
    ):
        assert "policy" in refused([command, run, *words], capsys)


def test_keyword_arguments_that_are_a_list_end_in_a_sentence(run, capsys):
    for odd in ([1, 2], "abc", {1: 2}, 3):
        changed_config(run, env_kwargs=odd)
        for command in ("eval", "video", "rerun"):
            refused([command, *COMMANDS.get(command, [str(run)])], capsys)
