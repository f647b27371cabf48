"""Algorithms compared over a suite of environments."""

import numpy as np
import pytest
from fake_runs import log, read_runs, write_run

from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.show import statistics, suite
from jaxrl.show.curves import View

ENVS = ("Ant-v4", "Hopper-v4")


def runs_of(root, returns):
    """Runs by algorithm and environment, with the returns at which they end."""
    for (algo, env), ends in returns.items():
        for seed, end in enumerate(ends):
            columns = log([10, 20], [end, end])
            write_run(root, f"{algo}-{env}", seed, columns, algo, env)
    return read_runs(root)


def two(root):
    """Of ppo 1 2 and 10 30, of sac 3 5 and 20 50."""
    ends = {("ppo", ENVS[0]): [1, 2], ("ppo", ENVS[1]): [10, 30]}
    return runs_of(root, ends | {("sac", ENVS[0]): [3, 5], ("sac", ENVS[1]): [20, 50]})


def test_scores_reach_from_the_worst_to_the_best_run_of_an_environment(tmp_path):
    found = suite.collect_scores(two(tmp_path), View())
    assert (found.environments, found.runs) == (list(ENVS), 8)
    np.testing.assert_allclose(found.scores["ppo"], [[0, 0.25], [0, 0.5]])
    np.testing.assert_allclose(found.scores["sac"], [[0.5, 1], [0.25, 1]])


def test_the_score_of_a_run_is_the_mean_of_its_last_epochs(tmp_path):
    values = [99, 1, 2, 3, 4, 5, ""]  # of which the last five known ones count
    write_run(tmp_path, "ppo", 0, log(range(7), values))
    (run,) = read_runs(tmp_path)
    assert suite.final_return(run, "Performance") == 3


def test_aggregates_are_those_of_the_paper():
    scores = [np.array([0.0, 0.2, 0.4]), np.array([0.6, 0.8]), np.array([1.0, 2.0, 3])]
    values = {name: one.value for name, one in suite.aggregates(scores).items()}
    # of all eight the middle four are 0.4 0.6 0.8 1.0; the means are 0.2 0.7 2.0
    assert values == pytest.approx({"IQM": 0.7, "median": 0.7, "mean": 2.9 / 3})


def test_a_profile_is_the_share_of_runs_above(tmp_path):
    one = suite.profile([np.array([0.0, 0.5]), np.array([0.5, 1.0])])
    at = dict(zip(suite.LEVELS.round(2), one.value, strict=True))
    assert (at[0], at[0.3], at[0.5], at[0.9], at[1]) == (0.75, 0.75, 0.25, 0.25, 0)
    assert (one.low <= one.value).all()
    assert (one.value <= one.high).all()


def test_the_probability_of_improvement_counts_wins_and_half_the_draws():
    ours, theirs = (
        [np.array([1.0, 3]), np.array([5.0])],
        [np.array([2.0]), np.array([5.0])],
    )
    # 1 of 2 pairs is won, then the only pair is drawn: (½ + ½) / 2
    assert suite.improvement(ours, theirs).value == 0.5
    assert suite.improvement([np.array([3.0])], [np.array([2.0])]).value == 1


def test_the_one_ahead_is_named_first(tmp_path):
    (names,) = suite.improvements(suite.collect_scores(two(tmp_path), View()))
    assert names == ("sac", "ppo")


def test_runs_are_drawn_within_their_environment():
    samples = [np.zeros(3), np.ones(5)]
    # however they are drawn, the means of the environments are 0 and 1
    assert statistics.stratified_bootstrap(samples, suite.AGGREGATES["mean"]) == (
        0.5,
        0.5,
    )


def test_the_stratified_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        scores = [rng.normal(level, 1, 15) for level in (0, 4)]
        one = suite.aggregates(scores)["mean"]
        hits += one.low < 2 < one.high
    assert 0.86 < hits / 200 < 0.99


def test_the_suite_is_drawn_and_printed(tmp_path, capsys):
    two(tmp_path / "r")
    output = tmp_path / "suite.svg"
    assert main(["plot", str(tmp_path / "r"), "--suite", "-o", str(output)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ppo  IQM 0.125 [")  # the middle of 0 0 ¼ ½
    assert lines[2].startswith("P(sac > ppo)  0.875 [")  # 4 of 4, and 3 of 4 pairs
    text = output.read_text()
    assert "performance profiles" in text
    assert "sac &gt; ppo" in text


def test_one_run_a_group_has_no_interval(tmp_path, capsys):
    runs_of(tmp_path / "r", {("ppo", ENVS[0]): [1], ("sac", ENVS[0]): [2]})
    output = tmp_path / "suite.svg"
    assert main(["plot", str(tmp_path / "r"), "--suite", "-o", str(output)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:3] == [
        "sac  IQM 1.000  median 1.000  mean 1.000",
        "P(sac > ppo)  1.000",
    ]
    assert "over 1 environment<" in output.read_text()


def test_gaps_and_equal_runs_are_refused(tmp_path):
    runs = two(tmp_path)
    with pytest.raises(UserError, match=r"ppo .*Hopper-v4"):
        suite.collect_scores(
            [run for run in runs if "ppo-Hopper" not in run.name], View()
        )
    with pytest.raises(UserError, match="Ant-v4"):
        suite.collect_scores(runs[:1], View())


def test_too_many_groups_and_unknown_settings_are_refused(tmp_path):
    for i in range(suite.MAX_GROUPS + 1):
        write_run(tmp_path, f"v{i}", 0, log([1, 2], [i, i]))
    runs = read_runs(tmp_path)
    with pytest.raises(UserError, match=r"12 .*13"):
        suite.collect_scores(runs, View())
    with pytest.raises(UserError, match=r"'agol'.*'algo'"):
        suite.collect_scores(runs, View(group=["agol"]))


def test_options_that_do_not_fit_a_suite_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    two(tmp_path / "r")
    for words in (["--ref", "spinup"], ["--count"], ["-y", "Performance", "Epoch"]):
        assert main(["plot", "r", "--suite", *words]) == 2
        assert capsys.readouterr().err.startswith("jaxrl: --suite")
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
