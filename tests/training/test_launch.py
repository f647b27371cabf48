"""`jaxrl.train(..., num_procs=2)` from a plain script."""

import os
import signal
import sys
import textwrap

import numpy as np
import pytest
from launching import begun, none_left_behind
from small_runs import table, train

import jaxrl
from jaxrl import algos
from jaxrl.errors import UserError
from jaxrl.processes import mpirun
from jaxrl.runs import arrays, checkpoint

TWO = {"num_procs": 2, "steps_per_epoch": 96, "minibatches": 1}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")


def test_a_script_gets_the_result_of_its_ranks(tmp_path):
    result = train(tmp_path, "ppo", "CartPole-v1", **TWO)
    assert [row["TotalEnvInteracts"] for row in result.history] == [96, 192]
    assert len(table(result.directory)) == 2
    assert "num_procs: 2" in (result.directory / "config.yaml").read_text()
    saved, _ = checkpoint.newest(result.directory)
    assert len(saved.content["ranks"]) == 1  # beside rank 0
    for name, value in arrays.flatten(result.state).items():
        np.testing.assert_array_equal(value, saved.content["state"][name])
    action = algos.get("ppo").act(result.state, np.zeros((1, 4)))
    assert action.shape == (1,)
    longer = jaxrl.resume(result.directory, steps=288, screen=False)
    assert longer.history[:2] == result.history
    assert len(longer.history) == 3


def test_what_ranks_print_reaches_the_output_of_a_notebook(tmp_path, capsys):
    jaxrl.train("ppo", "CartPole-v1", out=str(tmp_path), hidden=(8,), epochs=1, **TWO)
    assert "96/96 steps" in capsys.readouterr().out


def test_objects_of_this_process_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"on_epoch.*mpirun -n 2"):
        jaxrl.train(
            "ppo",
            "CartPole-v1",
            out=str(tmp_path / "runs"),
            on_epoch=lambda state, step: None,
            **TWO,
        )
    assert not (tmp_path / "runs").exists()


def test_mistakes_that_ranks_find_are_sentences(tmp_path):
    with pytest.raises(UserError, match="no_such_module"):
        train(tmp_path / "runs", "ppo", "no_such_module:A-v0", **TWO)
    with pytest.raises(UserError, match="Nope-v0") as caught:
        train(tmp_path / "runs", "ppo", "Nope-v0", **TWO)
    assert "settings.yaml" not in str(caught.value)  # a file that nobody wrote
    assert not list(tmp_path.glob("runs/*/*/config.yaml"))


def test_a_failure_of_a_rank_is_raised_with_its_reason(tmp_path):
    kwargs = {"fault": "reward"}
    with pytest.raises(RuntimeError, match="reward is not finite"):
        train(tmp_path, "ppo", "own_envs:Count-v0", env_kwargs=kwargs, **TWO)


def test_without_mpirun_there_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(mpirun.shutil, "which", lambda name: None)
    monkeypatch.setattr(mpirun.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UserError, match="mpirun, which is not installed"):
        train(tmp_path / "runs", "ppo", "CartPole-v1", **TWO)
    assert not (tmp_path / "runs").exists()


def test_ranks_end_with_a_killed_script(tmp_path):
    body = f"""
        import jaxrl
        jaxrl.train(
            "ppo", "CartPole-v1", out={str(tmp_path)!r}, exp_name="x", num_procs=2,
            steps=10**7, steps_per_epoch=96, minibatches=1, hidden=(8,),
        )
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(body))
    process = begun([sys.executable, str(tmp_path / "script.py")], tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert none_left_behind("jaxrl-train-", 10)
