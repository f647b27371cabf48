"""A grid trains variants of a JAX environment in one program where it can."""

import json
import subprocess
import sys

import pytest
from small_grids import TINY, surroundings  # noqa: F401

from jaxrl.experiments import pack
from jaxrl.experiments.grid import Grid
from jaxrl.experiments.job import Job
from jaxrl.runs import reading

JAX = TINY | {"num_envs": 4, "num_test_episodes": 0}


def grid(name, env="phys2d/CartPole-v1", **settings):
    made = Grid(name).add("algo", "ppo").add("env", env)
    for key, value in (JAX | settings).items():
        made.add(key, value)
    return made


def jobs(made):
    return [Job.from_variant(variant) for variant in made.runs("runs")]


def sizes(found):
    """Of the packs into which all jobs fall."""
    left, counts = list(found), []
    while left:
        together = pack.alike(left[0], left)
        left = [job for job in left if job not in together]
        counts.append(len(together))
    return sorted(counts)


def table(path):
    progress = reading.record(path).progress
    return [list(progress[name]) for name in ("Epoch", "AverageVVals", "LossV")]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"seed": [0, 1, 2]}, [3]),
        ({"seed": [0, 1], "pi_lr": [1e-3, 1e-4], "gamma": [0.9, 0.99]}, [8]),
        ({"seed": [0, 1], "num_envs": [2, 4]}, [2, 2]),
        ({"seed": [0, 1], "train_pi_iters": [2, 4]}, [2, 2]),
        ({"seed": [0, 1], "env": "CartPole-v1"}, [1, 1]),
        ({"seed": [0, 1], "num_procs": 2}, [1, 1]),
    ],
)
def test_variants_that_differ_in_seeds_and_real_numbers_are_alike(settings, expected):
    found = jobs(grid("g", **settings))
    assert sizes(found) == expected
    assert sorted(map(len, pack.grouped(found))) == expected


def test_a_packed_grid_gives_the_results_of_one_process_each(capfd):
    own = {"seed": [0, 1], "pi_lr": [1e-3, 1e-4]}
    packed = grid("packed", **own).run(jobs=1)
    assert "4 runs in one program" in capfd.readouterr().out
    alone = grid("alone", **own).run(jobs=2, pack=False)
    assert "in one program" not in capfd.readouterr().out
    assert len(packed.finished) == len(alone.finished) == 4
    for one, other in zip(packed.finished, alone.finished, strict=True):
        assert table(one) == table(other)


def test_an_unfinished_pack_is_continued_and_finished_ones_are_left(capfd):
    grid("g", seed=[0, 1]).run(jobs=1, screen=False)
    before = (reading.record("runs/g/g/g_s0").path / "progress.csv").stat().st_mtime_ns
    summary = grid("g", seed=[0, 1, 2, 3]).run(jobs=1)
    assert "2 runs in one program" in capfd.readouterr().out
    assert len(summary.finished) == 4
    after = (reading.record("runs/g/g/g_s0").path / "progress.csv").stat().st_mtime_ns
    assert after == before


def test_a_variant_that_cannot_be_prepared_does_not_stop_the_others(tmp_path):
    taken = tmp_path / "runs" / "g" / "g" / "g_s1"
    taken.mkdir(parents=True)
    (taken / "notes.txt").write_text("mine")
    summary = grid("g", seed=[0, 1, 2]).run(jobs=1, screen=False)
    assert len(summary.finished) == 2
    assert "notes" in summary.failed["g_s1"] or "g_s1" in summary.failed["g_s1"]
    assert (taken / "notes.txt").read_text() == "mine"


def test_the_command_takes_no_pack():
    words = "grid ppo --env phys2d/CartPole-v1 --seed 0 1 --hidden 8 --num_envs 4"
    words += " --steps_per_epoch 64 --epochs 1 --minibatches 1 --no-pack --name x"
    command = [sys.executable, "-m", "jaxrl", *words.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "in one program" not in done.stdout


def test_a_diverging_variant_fails_alone():
    summary = grid("g", pi_lr=[1e-3, 1e38], normalize_obs=False).run(
        jobs=1, screen=False
    )
    assert len(summary.finished) == 1
    (reason,) = summary.failed.values()
    assert "finite" in reason
    states = {reading.record(path).state for path in summary.finished}
    assert states == {"finished"}
    assert json.loads(json.dumps(summary.failed))
