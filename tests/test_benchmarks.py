"""The benchmark scripts: failed runs are no results, and result files stay readable."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import jaxrl
from jaxrl.experiments import grid_file

ROOT = Path(jaxrl.__file__).parents[1]
SCRIPTS = ROOT / "benchmarks"
FAILING = """
import gymnasium as gym

class Failing(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, good_steps):
        self.left = good_steps

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.step_of_episode = 0
        return self.observation_space.low, {}

    def step(self, action):
        self.left -= 1
        self.step_of_episode += 1
        reward = float("nan") if self.left == 0 else 1.0
        over = self.step_of_episode == 10
        return self.observation_space.low, reward, over, False, {}

for name, good_steps in (("Works-v0", -1), ("Fails-v0", 5000)):
    gym.register(name, Failing, kwargs={"good_steps": good_steps})
"""


@pytest.fixture
def script(monkeypatch, tmp_path):
    """Imports a script, with a result file of the test's own."""
    monkeypatch.syspath_prepend(SCRIPTS)

    def load(name):
        module = importlib.import_module(name)
        monkeypatch.setattr(module, "RESULTS", tmp_path / "results" / f"{name}.csv")
        return module

    return load


@pytest.fixture
def records(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("records")


@pytest.fixture
def environments(monkeypatch, tmp_path):
    """failing:Works-v0, and failing:Fails-v0 whose reward is NaN at step 5000."""
    (tmp_path / "failing.py").write_text(FAILING)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")


def call_main(module, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
    return module.main()


def test_a_failed_run_is_no_result_of_learn(
    script, records, environments, monkeypatch, capsys
):
    learn = script("learn")
    works = learn.Task("vpg", "failing:Works-v0", 4000, 5, seeds=1)
    tasks = [
        learn.Task("vpg", "failing:Fails-v0", 20_000, 5, seeds=1),
        learn.Task("vpg", "NoSuchEnvironment-v0", 4000, 5, seeds=1),
        works,
    ]
    monkeypatch.setattr(learn, "TASKS", tasks)
    assert call_main(learn, monkeypatch, "--jobs", "2") == 1
    (row,) = records.read(learn.RESULTS)
    assert (row["task"], row["best"]) == (works.name, "10.0")
    errors = capsys.readouterr().err
    assert "reward" in errors
    assert "NoSuchEnvironment" in errors


def test_a_failed_run_is_no_result_of_speed(script, environments, tmp_path):
    speed = script("speed")
    settings = {"steps_per_epoch": 1000, "hidden": 8, "train_v_iters": 2}
    case = speed.Case("x", "vpg", "failing:Fails-v0", settings, {}, 20_000, 1000)
    with pytest.raises(RuntimeError, match="reward"):
        speed.ours(case, dict(os.environ), tmp_path / "fails")
    case = case._replace(env="failing:Works-v0", steps=3000)
    assert speed.ours(case, dict(os.environ), tmp_path / "works") > 0


def test_a_failed_run_leaves_no_half_round_of_parallel(script, monkeypatch):
    parallel = script("parallel")

    def train(settings, ranks):
        if ranks == 2:
            raise RuntimeError("broken")
        return parallel.Speed(1, 1, 1)

    monkeypatch.setattr(parallel, "train", train)
    with pytest.raises(RuntimeError, match="broken"):
        parallel.measure(1, "run trpo")
    assert parallel.known() == {}


@pytest.mark.parametrize("name", ["learn", "learn_jax", "speed", "faults", "parallel"])
def test_an_appended_row_names_its_origin_and_keeps_the_earlier_ones(
    name, records, tmp_path
):
    old = records.read(SCRIPTS / "results" / f"{name}.csv")
    path = tmp_path / "copy.csv"
    before = [name for name in old[0] if name not in records.ORIGIN]
    records.write(path, [{c: row[c] for c in before} for row in old], before)
    new = dict.fromkeys(before, "a, b")
    records.append(path, new)
    records.append(path, new | {"versions": "another 1.0"})
    *kept, first, second = records.read(path)
    assert [{c: row[c] for c in before} for row in kept] == [
        {c: row[c] for c in before} for row in old
    ]
    assert first == new | records.origin()
    assert all(first[column] for column in ("machine", "versions", "date"))
    assert second == first | {"versions": "another 1.0"}


@pytest.mark.parametrize("name", ["learn", "speed", "faults", "parallel", "fused"])
def test_the_published_results_can_be_reported(name):
    command = [sys.executable, SCRIPTS / f"{name}.py", "--report"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n|") > 5


def test_a_failed_side_is_no_result_of_fused(script, tmp_path):
    fused = script("fused")
    case = fused.Case("x", "epochs", {"epochs": "none"}, ("epochs",), rounds=1)
    with pytest.raises(RuntimeError, match="failed"):
        fused.run([case], [], tmp_path)
    assert fused.known() == {}


def test_the_mark_is_passed_by_the_average_of_twenty_episodes(script, tmp_path):
    timing, file = script("time_to_result"), tmp_path / "episodes"
    episodes = timing.Episodes(file, mark=10, start=100)
    returns = [0] * 5 + [10] * 19
    lines = [f"{101 + i} {i} 7 {x}\n" for i, x in enumerate([*returns, 10, 10])]
    with file.open("w", buffering=1) as output:
        output.write("".join(lines[:24]) + "125 ")
        assert episodes.passed() is None
        output.write("24 7 10\n" + lines[25])
    assert episodes.passed() == timing.Passed(seconds=25, cpu_seconds=24, steps=25 * 7)


def test_a_failed_run_is_no_result_of_time_to_result(script, environments, tmp_path):
    timing = script("time_to_result")
    task = timing.Task("ppo", "failing:Fails-v0", 100, 20_000, {}, {})
    with pytest.raises(RuntimeError, match="nan"):
        timing.train(task, "jaxrl", 0, Path(), sorted(os.sched_getaffinity(0)))


def test_the_cost_of_checkpoints_is_measured():
    small = ["--epochs", "2", "--epoch-steps", "60", "--transitions", "1000"]
    command = [sys.executable, SCRIPTS / "checkpoints.py", *small]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "| 1 |" in done.stdout


def test_peak_memory_is_measured(script, tmp_path):
    speed = script("speed")
    case = speed.Case("x", "sac", "Hopper-v4", {}, {}, 50, measure="memory")
    assert speed.ours(case, dict(os.environ), tmp_path) > 100


def test_a_number_that_is_not_in_the_data_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    verify = importlib.import_module("verify")
    text = tmp_path / "README.md"
    text.write_text("<!-- table: faults -->\n<!-- end -->\n")
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    assert verify.differences(text)
    text.write_text(verify.rebuilt(text.read_text()))
    assert not verify.differences(text)
    right = re.search(r"\| sac \| (\d+) \|", text.read_text())
    wrong = f"| sac | {int(right[1]) + 1} |"
    text.write_text(text.read_text().replace(right[0], wrong))
    assert verify.differences(text)


def test_a_number_in_a_sentence_that_is_not_of_the_data_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    verify = importlib.import_module("verify")
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("It is <!-- number: against-sb3 --><!-- end --> times as fast.\n")
    page.write_text(verify.rebuilt(page.read_text()))
    assert re.search(r"is <.*>\d\.\d to \d\.\d<.*> times as fast", page.read_text())
    assert not verify.differences(page)
    page.write_text(re.sub(r"\d\.\d to", "1.0 to", page.read_text()))
    assert verify.differences(page)


def test_a_sentence_counts_the_seeds_of_the_suite(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    sentences = importlib.import_module("sentences")
    make = sentences.suite.Cell
    cells = [
        make(algo, env, 240_000, np.zeros(seeds), 0, 1)
        for algo, env, seeds in [
            *(("ppo", "Hopper-v4", 5), ("ppo", "Ant-v4", 5), ("vpg", "Ant-v4", 5)),
            *(("sac", "Hopper-v4", 3), ("sac", "Ant-v4", 1)),
        ]
    ]
    monkeypatch.setattr(sentences.suite, "cells", lambda: cells)
    assert sentences.seeds() == "5 of VPG and PPO, 1 to 3 of SAC"


def test_a_page_that_names_a_missing_table_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    verify = importlib.import_module("verify")
    page = tmp_path / "page.md"
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    page.write_text("```{benchmark} suite\n```\n")
    assert not verify.differences(page)
    page.write_text("```{benchmark} suit\n```\n")
    assert "suit" in verify.differences(page)[0]


def test_published_returns_are_compared_in_the_same_way(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    published = importlib.import_module("published")
    steps = np.arange(5000, 1_000_001, 5000)
    rising = published.suite.Curve(steps, steps / 1000)
    falling = published.suite.Curve(steps, np.where(steps > 500_000, 0, 700.0))
    curves = {("ppo", "Hopper-v4", 1_000_000): [rising, falling]}
    monkeypatch.setattr(published.suite, "runs", lambda: curves)
    best = published.ours("ppo", "Hopper-v4", "best")
    last = published.ours("ppo", "Hopper-v4", "last")
    assert best.mean == pytest.approx((497.5 + 700) / 2)  # of the mean over seeds
    assert last.mean == pytest.approx((952.5 + 0) / 2)  # of the last 100,000 steps
    assert published.ours("sac", "Hopper-v4", "best") is None


def test_the_suites_runs_without_a_curve_are_a_grid(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(SCRIPTS)
    collect = importlib.import_module("collect")
    monkeypatch.setattr(collect, "RESULTS", tmp_path)
    every = grid_file.read(str(collect.SUITE)).variants
    curves = [tmp_path / collect.curve_name(vars(variant.run)) for variant in every]
    for curve in curves[2:-2]:
        curve.touch()
    left = tmp_path / "left.yaml"
    left.write_text(yaml.safe_dump(collect.missing()))
    found = grid_file.read(str(left)).variants
    names = [collect.curve_name(vars(variant.run)) for variant in found]
    assert names == [curve.name for curve in (*curves[:2], *curves[-2:])]
    for curve in [*curves[:2], *curves[-2:]]:
        curve.touch()
    with pytest.raises(SystemExit, match="every run of the suite has a curve"):
        collect.missing()
