"""The README's code and the examples run unchanged."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import jaxrl

pytestmark = pytest.mark.examples
ROOT = Path(jaxrl.__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


def run(*command, where=ROOT):
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=where,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_readmes_code_runs(block, tmp_path):
    run("-c", block, where=tmp_path)


def test_the_readme_shows_code():
    assert len(BLOCKS) >= 2


def test_sac_learns_the_pendulum_in_the_example():
    lines = run(ROOT / "examples" / "pendulum.py").splitlines()
    returns = [float(line.split()[-1]) for line in lines]
    assert len(returns) == 10
    assert max(returns[5:]) > -200  # a random policy gets about -1200


def test_many_seeds_prints_a_row_for_every_learning_rate():
    assert run(ROOT / "examples" / "many_seeds.py").count("±") == 4


def test_the_example_of_callbacks_stops_early(tmp_path):
    lines = run(ROOT / "examples" / "callbacks.py", where=tmp_path).splitlines()
    assert len(lines) < 60
    assert "StopAtSmoothedReturn" in lines[-1]


def test_own_networks_lower_their_loss_and_train_a_run(tmp_path):
    *lines, last = run(ROOT / "examples" / "own_networks.py", where=tmp_path).split(
        "\n"
    )
    losses = [float(line.split()[-1]) for line in lines if "loss" in line]
    assert losses[-1] < losses[0]
    assert "return" in [*lines, last][-2]


def test_an_own_algorithm_is_written_changed_trained_and_compared(tmp_path):
    out = run(ROOT / "examples" / "own_algorithm.py", where=tmp_path)
    assert "2 runs finished, 0 failed" in out
    assert (tmp_path / "mean_sac.py").exists()


def test_own_env_is_trained_resumed_and_played():
    first, second, last = run(ROOT / "examples" / "own_env.py").splitlines()
    assert (first, second) == ("1000 steps", "2000 steps")
    assert float(last.split()[1]) < 0


def test_ppo_learns_to_catch_from_pixels():
    last = run(ROOT / "examples" / "images.py").splitlines()[-1]
    assert float(last.split()[-1]) > 0.8  # a random policy gets about -0.4


def test_a_loop_of_ones_own_is_logged_and_drawn(tmp_path):
    printed = run(ROOT / "examples" / "own_loop.py", where=tmp_path)
    assert float(printed.split()[-1]) > 100  # random policies get about 30
    assert (tmp_path / "runs/cross-entropy/cross-entropy_s0/curve.png").exists()


def test_a_function_of_ones_own_is_run_and_searched():
    printed = run(ROOT / "examples" / "own_function.py")
    assert "8 of 8 finished" in printed
    assert float(printed.split()[-1]) > -1e-3  # minus the best loss
