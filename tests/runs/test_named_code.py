"""A stranger's run names code: what is imported for it, called and executed."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_runs import train

import jaxrl
from jaxrl.cli.main import main
from jaxrl.errors import UserError

ROOT = Path(jaxrl.__file__).parents[1]
WRITES = "open('canary', 'w')\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    done = train(tmp_path_factory.mktemp("run"), "ppo", "CartPole-v1", exp_name="x")
    return done.directory


@pytest.fixture
def run(finished, tmp_path, monkeypatch):
    """A copy of a run, in the current directory."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(finished, "x/x_s0"))


def change(run, **changes):
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["settings"] |= changes.pop("settings", {})
    (run / "config.yaml").write_text(yaml.safe_dump(config | changes))
    shutil.rmtree(run / "checkpoints", ignore_errors=True)  # which have settings, too


def refused(words, capsys):
    assert main([str(word) for word in words]) == 2
    return capsys.readouterr().err


def by_python(*words):
    """`python -m jaxrl`, which begins with the current directory on its path."""
    return subprocess.run(
        [sys.executable, "-m", "jaxrl", *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("module", ["this", "antigravity", "idlelib.idle"])
def test_modules_of_python_itself_are_not_imported(run, module, capsys):
    change(run, env=f"{module}:x")
    assert "Python" in refused(["eval", run, "--episodes", "1"], capsys)
    change(run, env="CartPole-v1", networks=f"{module}:x")
    assert "Python" in refused(["resume", run], capsys)
    assert module not in sys.modules


def test_a_users_module_may_have_the_name_of_one_of_pythons(tmp_path, monkeypatch):
    (tmp_path / "this.py").write_text("import own_envs\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="has no function"):
        jaxrl.train("ppo", "this:absent", out=str(tmp_path))
    assert sys.modules.pop("this").__file__ == str(tmp_path / "this.py")


@pytest.mark.parametrize(
    ("env", "arguments"),
    [
        ("FrozenLake-v1", {"map_name": "x"}),
        ("FrozenLake-v1", {"desc": 5}),
        ("CartPole-v1", {"render_mode": ["x"]}),
        ("gymnasium:make", {"id": 5}),
        ("gymnasium.wrappers:RecordVideo", {"env": "x", "video_folder": "canary"}),
    ],
)
def test_arguments_that_an_installed_environment_does_not_take(
    run, env, arguments, capsys
):
    change(run, env=env, env_kwargs=arguments)
    assert "does not accept" in refused(["eval", run, "--episodes", "1"], capsys)
    assert not Path("canary").exists()


def test_a_defect_in_a_users_environment_keeps_its_traceback(
    run, tmp_path, monkeypatch
):
    (tmp_path / "defect.py").write_text("def make(a):\n    return {}['absent']\n")
    monkeypatch.syspath_prepend(tmp_path)
    change(run, env="defect:make", env_kwargs={"a": 1})
    with pytest.raises(KeyError):
        main(["eval", str(run)])


@pytest.mark.parametrize("name", ["networks", "init_from", "algo", "env"])
def test_control_characters_are_not_printed(run, name, capsys):
    change(run, **{name: "\x1b[2J:x"})
    assert "\x1b" not in refused(["resume", run], capsys)


def test_many_worker_processes_are_refused(run, capsys):
    change(run, env_workers=5000, settings={"num_envs": 5000, "steps_per_epoch": 5000})
    assert "env_workers" in refused(["resume", run], capsys)


def test_modules_beside_a_run_are_not_imported(run):
    Path("evil.py").write_text(WRITES)
    change(run, env="evil:x")
    for words in (["eval", run], ["resume", run], ["rerun", run], ["verify", run]):
        assert by_python(*words).returncode == 2, words
    assert not Path("canary").exists()


@pytest.mark.mpi
def test_ranks_import_nothing_from_the_current_directory(run):
    for module in ("evil", "json"):
        Path(f"{module}.py").write_text(WRITES)
    change(run, num_procs=2, env="evil:x")
    code = "import sys; del sys.path[0]; from jaxrl.cli.main import main; "
    code += f"sys.exit(main(['resume', {str(run)!r}]))"  # as the script `jaxrl`
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment)
    assert done.returncode == 2
    assert not Path("canary").exists()


def test_the_current_directory_by_another_name_is_refused(run, capsys):
    Path("algo.py").write_text(WRITES)
    digest = hashlib.sha256(WRITES.encode()).hexdigest()
    change(run, algo="/proc/self/cwd/algo.py", algo_sha256=digest)
    for command in ("resume", "rerun", "verify"):
        assert "not run" in refused([command, run], capsys)
    assert not Path("canary").exists()
