"""Looking at runs: statistics, curves, pictures, episodes, videos, mistakes."""

import json
import os
import re
import shutil
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import yaml
from fake_runs import log, read_runs, write_run

import jaxrl
from jaxrl import evaluation
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.policy import Policy
from jaxrl.runs import directory, reading
from jaxrl.show import curves, plot, selection, spinup, statistics, video
from jaxrl.show.curves import View


def seeds(root, *runs, name="ppo"):
    for seed, (steps, returns) in enumerate(runs):
        write_run(root, name, seed, log(steps, returns))
    return read_runs(root)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Short runs: one with discrete actions, one with odd shapes and bounds."""
    out = str(tmp_path_factory.mktemp("runs"))
    small = {"steps_per_epoch": 64, "epochs": 2, "hidden": "8", "out": out}
    pole = jaxrl.train("ppo", "CartPole-v1", screen=False, **small)
    own = {"env_kwargs": {"length": 8}, "max_ep_len": 6}
    count = jaxrl.train("ppo", "own_envs:Count-v0", screen=False, **small, **own)
    return {"pole": pole.directory, "count": count.directory}


@pytest.fixture
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Statistics


def test_the_iqm_is_the_mean_of_the_middle_half():
    # of 0 1 2 3 4 5 6 100 the middle four are 2 3 4 5
    assert statistics.iqm(np.array([100.0, 0, 1, 2, 3, 4, 5, 6])) == 3.5
    assert statistics.iqm(np.array([1.0, 2, 9])) == 4  # of three none is cut
    two = np.array([[0.0, 9], [1, 1], [2, 2], [50, -9]])
    np.testing.assert_allclose(statistics.iqm(two), [1.5, 1.5])


@pytest.mark.parametrize("estimate", statistics.ESTIMATORS.values())
def test_the_bootstrap_interval_covers_the_truth_about_as_often_as_it_says(estimate):
    samples = np.random.default_rng(1).normal(7, 2, (20, 300))  # 300 experiments
    low, high = statistics.bootstrap(samples, estimate)
    assert 0.86 < np.mean((low < 7) & (high > 7)) < 0.98
    assert (low < high).all()


def test_bands_are_what_they_are_called():
    values = np.array([[1.0], [2.0], [6.0]])
    assert [x.item() for x in statistics.band(values, "minmax", statistics.mean)] == [
        1,
        6,
    ]
    low, high = statistics.band(values, "sd", statistics.mean)  # 3 ± √(14/3)
    np.testing.assert_allclose(
        [low, high], [[3 - 4.6667**0.5], [3 + 4.6667**0.5]], 1e-4
    )


@pytest.mark.parametrize(
    ("window", "due"),
    [
        (1, [0, 3, 6, 3]),
        (3, [1.5, 3, 4, 4.5]),  # over two values at either end
        (99, [3, 3, 3, 3]),  # longer than the run
    ],
)
def test_smoothing_averages_over_what_there_is(window, due):
    values = np.array([0.0, 3, 6, 3])
    np.testing.assert_allclose(statistics.smooth(values, window), due)


def test_curves_meet_on_a_common_grid():
    fast = np.array([10.0, 20, 30, 40]), np.array([1.0, 2, 3, 4])
    slow = np.array([15.0, 35]), np.array([0.0, 2])
    grid, values = statistics.on_common_grid([fast, slow])
    np.testing.assert_allclose(grid, [15, 20, 30, 35])
    np.testing.assert_allclose(values, [[1.5, 2, 3, 3.5], [0, 0.5, 1.5, 2]])


# Reading


def test_a_line_being_written_is_left_out(tmp_path):
    path = write_run(tmp_path, "ppo", 0, log([10, 20], [1, ""]))
    with (path / "progress.csv").open("a") as file:
        file.write("30,")
    (run,) = read_runs(tmp_path)
    np.testing.assert_array_equal(run.progress["TotalEnvInteracts"], [10, 20])
    np.testing.assert_array_equal(run.progress["AverageEpRet"], [1, np.nan])


def test_paths_are_paths_and_globs_and_never_parts_of_names(tmp_path):
    for seed in (1, 10):
        write_run(tmp_path, "ppo", seed, log([1], [1]))
    one = read_runs(tmp_path / "ppo" / "ppo_s1")
    assert [run.name for run in one] == ["ppo_s1"]
    both = read_runs(tmp_path / "p*", tmp_path / "ppo" / "ppo_s10")
    assert sorted(run.name for run in both) == ["ppo_s1", "ppo_s10"]


def test_a_run_has_its_name_from_inside_too(tmp_path, monkeypatch):
    monkeypatch.chdir(write_run(tmp_path, "ppo", 3, log([1], [1])))
    assert reading.record(".").name == "ppo_s3"


def test_what_is_inside_of_a_run_is_no_run(tmp_path):
    path = write_run(tmp_path, "[ppo]", 0, log([1], [1]))
    (path / "wandb").mkdir()
    (path / "wandb" / "config.yaml").write_text("not: ours")
    assert [run.path for run in read_runs(tmp_path / "[ppo]")] == [path]


WRONG_ENV = "{algo: ppo, env: 5, exp_name: x, seed: 0, settings: {max_ep_len: 9}}"


@pytest.mark.parametrize(
    ("file", "content", "part"),
    [
        ("config.yaml", "{", "YAML"),
        ("config.yaml", "env: Hopper-v4", "algo, env"),
        ("config.yaml", "", "algo"),
        ("config.yaml", WRONG_ENV, r"\benv$"),
        ("progress.csv", "a,b\n1,2,3\n", "row"),
        ("progress.csv", "a,b\n1,x\n", "row"),
        ("progress.csv", f"a\n{'1' * 200_000}\n", "row"),
        ("progress.csv", "a,b\n1,2\n", "TotalEnvInteracts"),
        ("progress.csv", "TotalEnvInteracts\n1e29\n", "TotalEnvInteracts"),
        ("progress.csv", b"\xff\xfe\x00\n", "read"),
    ],
)
def test_a_damaged_run_is_named(tmp_path, file, content, part):
    path = write_run(tmp_path, "ppo", 0, log([1], [1]))
    kind = content if isinstance(content, bytes) else content.encode()
    (path / file).write_bytes(kind)
    with pytest.raises(UserError, match=part) as refusal:
        _ = reading.record(path).progress
    assert str(path / file) in str(refusal.value)


# Curves


def test_seeds_of_one_experiment_are_averaged(tmp_path):
    runs = seeds(tmp_path, ([10, 20], [1, 3]), ([10, 20, 30], [3, 7, 9]))
    ((curve,),) = [panel.curves for panel in curves.panels(runs, View())]
    np.testing.assert_allclose(curve.x, [10, 20])
    np.testing.assert_allclose(curve.y, [2, 5])
    assert (curve.label, curve.runs, curve.latest) == ("ppo", 2, 30)


def test_performance_is_of_the_test_episodes_if_there_are_any(tmp_path):
    write_run(tmp_path, "ppo", 0, log([1, 2], [5, 5]))
    write_run(tmp_path, "sac", 0, log([1, 2], [5, 5], AverageTestEpRet=[8, 9]))
    ppo, sac = curves.panels(read_runs(tmp_path), View())[0].curves
    assert (ppo.y[-1], sac.y[-1]) == (5, 9)


def test_columns_and_environments_have_panels(tmp_path):
    for env in ("Hopper-v4", "Ant-v4"):
        name = f"ppo-{env}"
        write_run(tmp_path, name, 0, log([1, 2], [5, 6], EpLen=[7, 8]), env=env)
    view = View(ys=["Performance", "EpLen"])
    panels = curves.panels(read_runs(tmp_path), view)
    assert [(panel.title, panel.y) for panel in panels] == [
        ("Ant-v4", "Performance"),
        ("Hopper-v4", "Performance"),
        ("Ant-v4", "EpLen"),
        ("Hopper-v4", "EpLen"),
    ]
    # the title says the environment, so both curves are "ppo" and have one colour
    assert {curve.label for panel in panels for curve in panel.curves} == {"ppo"}


def test_runs_are_grouped_selected_and_renamed(tmp_path):
    for seed, gamma in enumerate((0.9, 0.9, 0.99)):
        write_run(tmp_path, "ppo", seed, log([1, 2], [gamma, 1]), gamma=gamma)
    runs = read_runs(tmp_path)
    grouped = curves.panels(runs, View(group=["algo", "gamma"]))[0].curves
    labels = [(curve.label, curve.runs) for curve in grouped]
    assert labels == [("ppo, gamma 0.9", 2), ("ppo, gamma 0.99", 1)]
    renamed = curves.panels(runs, View(group=["gamma"], legend=["low", "high"]))
    assert [curve.label for curve in renamed[0].curves] == ["low", "high"]
    each = curves.panels(runs, View(each_run=True))[0].curves
    assert [curve.label for curve in each] == ["ppo_s0", "ppo_s1", "ppo_s2"]
    names = lambda runs: [run.name for run in runs]  # noqa: E731
    assert names(selection.select(runs, ["gamma=0.99"], [])) == ["ppo_s2"]
    assert names(selection.select(runs, [], ["*_s1"])) == ["ppo_s0", "ppo_s2"]
    with pytest.raises(UserError, match="--select"):
        selection.select(runs, ["pp"], [])  # a part of a name is not a name


def test_spinning_ups_curves_are_the_published_ones(tmp_path):
    write_run(tmp_path, "ppo", 0, log([1e6, 3e6], [1, 2]), env="Hopper-v4")
    write_run(tmp_path, "trpo", 0, log([1e6, 2e6], [1, 2]), "trpo", "Hopper-v4")
    (panel,) = curves.panels(read_runs(tmp_path), View())
    ppo, trpo = spinup.reference_curves(panel, View())
    assert (ppo.y[-1], ppo.high[-1]) == (2477, 2477 + 529)  # as their figure shows
    assert trpo.y[-1] == 1887
    assert "tensorflow" in trpo.label  # the only one they published
    assert spinup.reference_curves(panel, View(x="Time")) == []


def test_the_reference_ends_where_our_curves_do(tmp_path):
    write_run(tmp_path, "sac", 0, log([1e4, 5e5], [1, 2]), "sac", "mine:Hopper-v5")
    (panel,) = curves.panels(read_runs(tmp_path), View())
    (sac,) = spinup.reference_curves(panel, View())
    assert sac.x[-1] == sac.x.max() == 5e5
    assert sac.y[-1] == pytest.approx(3231, abs=15)


def test_the_reference_has_no_point_beyond_its_own_ends(tmp_path):
    write_run(tmp_path, "sac", 0, log([1e3, 9e6], [1, 2]), "sac")
    (panel,) = curves.panels(read_runs(tmp_path), View())
    (sac,) = spinup.reference_curves(panel, View())
    assert (sac.x[0], sac.x[-1]) == (9999, 2999999)
    assert (np.diff(sac.x) > 0).all()


def test_a_reference_that_begins_later_is_not_drawn(tmp_path, in_tmp, capsys):
    write_run(tmp_path / "r", "sac", 0, log([2048, 4096], [1, 2]), "sac")
    options = ["--ref", "spinup", "-o", "curves.svg"]
    assert main(["plot", "r", *options]) == 0
    assert "Spinning Up's sac, pytorch" in capsys.readouterr().err
    assert "Spinning Up" not in (in_tmp / "curves.svg").read_text()


@pytest.mark.parametrize(("env", "y"), [("CartPole-v1", "Performance"), (None, "Gap")])
def test_runs_without_a_reference_are_drawn_alone(tmp_path, in_tmp, env, y, capsys):
    columns = log([10, 20], [1, 2], Gap=[3, 4])
    write_run(tmp_path / "r", "ppo", 0, columns, env=env or "Hopper-v4")
    words = ["plot", "r", "--ref", "spinup", "-y", y, "-o", "curves.svg"]
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "without reference" in said
    assert f"{y} in {env or 'Hopper-v4'}" in said
    assert "Spinning Up" not in (in_tmp / "curves.svg").read_text()


# Pictures


@pytest.mark.parametrize("suffix", plot.SUFFIXES)
def test_a_picture_is_written_without_a_display(tmp_path, suffix, capsys):
    seeds(tmp_path / "r", ([10, 20], [1, 3]), ([10, 20, 30], [3, 7, 9]))
    output = tmp_path / f"curves{suffix}"
    options = ("--ref", "spinup", "-x", "TotalEnvInteracts", "--smooth", "2")
    assert main(["plot", str(tmp_path / "r"), "-o", str(output), *options]) == 0
    captured = capsys.readouterr()
    assert "2 runs" in captured.out
    assert "shortest run" in captured.err
    begins = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert output.read_bytes().startswith(begins[suffix])
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "r", output])


def test_the_picture_shows_the_curves_under_their_names(tmp_path):
    from matplotlib.figure import Figure

    runs = seeds(tmp_path, ([0, 1e6], [1, 3]), ([0, 1e6], [3, 7]))
    panels = curves.panels(runs, View())
    figure = Figure(layout="constrained")
    plot.draw(figure, panels, [spinup.reference_curves(panels[0], View())], View())
    (axis,) = figure.axes
    ours, theirs = axis.get_lines()
    np.testing.assert_allclose(ours.get_ydata(), [2, 5])
    assert ours.get_color() == theirs.get_color()
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("environment steps", "return")
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["ppo (2 runs)", "Spinning Up's ppo, pytorch (10 runs)"]
    figure.draw_without_rendering()
    assert "1M" in [tick.get_text() for tick in axis.get_xticklabels()]


@pytest.mark.parametrize(
    ("envs", "ys", "over_all", "over_panels"),
    [
        (["Ant-v4"], ["EpLen", "Performance"], "Ant-v4", ["", ""]),
        (["Ant-v4"], ["EpLen"], "", ["Ant-v4"]),
        (["A-v1", "B-v1"], ["EpLen", "Performance"], "", ["A-v1", "B-v1", "", ""]),
        (["A-v1", "B-v1"], ["EpLen"], "", ["A-v1", "B-v1"]),
    ],
)
def test_a_title_stands_once(tmp_path, envs, ys, over_all, over_panels):
    from matplotlib.figure import Figure

    for env in envs:
        write_run(tmp_path, env, 0, log([1, 2], [5, 6], EpLen=[7, 8]), env=env)
    panels = curves.panels(read_runs(tmp_path), View(ys=ys))
    figure = Figure(layout="constrained")
    plot.draw(figure, panels, [[] for _ in panels], View(ys=ys))
    assert figure.get_suptitle() == over_all
    assert [axis.get_title() for axis in figure.axes] == over_panels


def test_numbers_are_short():
    assert [plot.short_number(x) for x in (0, 950, 2500, 1e6, -3e9)] == [
        *("0", "950", "2.5k", "1M", "-3G")
    ]


def test_a_mean_over_environments_is_noted(tmp_path, in_tmp, capsys):
    for env in "A-v1", "B-v1":
        write_run(tmp_path / "r", f"ppo-{env}", 0, log([1, 2], [5, 6]), env=env)
    by_algo = ["plot", "r", "--group", "algo"]
    assert main([*by_algo, "--facet", "none"]) == 0
    note = capsys.readouterr().err
    for part in ("ppo", "A-v1, B-v1", "--facet env"):
        assert part in note
    assert main(by_algo) == 0
    assert main(["plot", "r", "--facet", "none"]) == 0  # a curve for each
    assert capsys.readouterr().err == ""


def test_a_run_without_a_row_is_left_out(tmp_path, in_tmp, capsys):
    write_run(tmp_path / "r", "ppo", 0, log([1, 2], [1, 2]))
    (write_run(tmp_path / "r", "ppo", 1, log([], [])) / "progress.csv").unlink()
    assert main(["plot", "r"]) == 0
    error = capsys.readouterr().err
    assert "ppo_s1" in error
    assert "progress.csv" in error
    assert len(error.splitlines()) == 1
    assert (in_tmp / "curves.png").exists()


@pytest.mark.parametrize(
    ("file", "content"), [("config.yaml", "{"), ("progress.csv", "a,b\n1,2,3\n")]
)
def test_a_damaged_run_is_left_out_by_its_name(in_tmp, file, content, capsys):
    write_run(in_tmp / "r", "ppo", 0, log([1, 2], [1, 2]))
    (write_run(in_tmp / "r", "bad[1]", 0, log([1], [1])) / file).write_text(content)
    assert main(["plot", "r"]) == 0
    shown = capsys.readouterr()
    assert f"bad[1]_s0/{file}" in shown.err
    assert "1 run\n" in shown.out
    assert main(["plot", "r/bad*"]) == 2
    assert f"bad[1]_s0/{file}" in capsys.readouterr().err
    for pattern in ("bad*", "bad[[]1]_s0"):
        assert main(["plot", "r", "--exclude", pattern]) == 0
        shown = capsys.readouterr()
        assert "1 run\n" in shown.out
        assert "bad" not in shown.err


# Episodes


def test_a_run_is_loaded_in_python(trained):
    policy, env = jaxrl.load(str(trained["pole"]))
    obs, _ = env.reset(seed=0)
    assert env.action_space.contains(policy(obs))
    mean, std = jaxrl.evaluate_policy(policy, env, 5)
    assert 8 <= mean <= 500
    assert std > 0
    assert jaxrl.evaluate_policy(policy, env, 5) == (mean, std)
    assert jaxrl.evaluate_policy(lambda obs: 1, env, 20)[0] < 12  # falls at once
    assert jaxrl.evaluate_policy(policy, env, np.int64(5), np.int64(0)) == (mean, std)


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        *(({"num_test_episodes": odd}, "num_test_episodes") for odd in (0, 2.5, "2")),
        ({"policy": "runs/a/a_s0"}, "policy"),
        ({"env": "CartPole-v1"}, "env"),
        ({"seed": "x"}, "seed"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_in_a_sentence(changed, word):
    given = {"policy": lambda obs: 1, "env": gymnasium.make("CartPole-v1")} | changed
    with pytest.raises(UserError, match=word):
        jaxrl.evaluate_policy(**given)


def test_the_environment_is_the_runs_own(trained):
    policy, env = jaxrl.load(str(trained["count"]), "best")
    # it observes its steps in [2, 1] and takes actions from -2 to 6
    obs, _ = env.reset()
    assert obs.shape == (2,)
    (last,) = [
        m for m in evaluation.play(lambda obs: np.array([5]), env, 1, 0) if m.over
    ]
    assert (last.returned, last.length) == (30, 6)  # max_ep_len, before its length of 8
    action = policy(obs)
    assert -2 <= action[0] <= 6


def test_eval_prints_episodes_and_their_summary(trained, capsys):
    assert main(["eval", str(trained["pole"]), "--num_test_episodes", "8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    returns = [float(line.split()[3]) for line in lines[:8]]
    assert lines[7].startswith("Episode 8   EpRet ")
    table = {w[1]: float(w[3]) for w in map(str.split, lines[8:]) if len(w) == 5}
    assert table["AverageEpRet"] == pytest.approx(np.mean(returns), rel=0.01)
    assert table["IqmEpRet"] == pytest.approx(np.mean(sorted(returns)[2:6]), rel=0.01)
    assert table["IqmLow"] <= table["IqmEpRet"] <= table["IqmHigh"]


@pytest.mark.parametrize(("episodes", "known"), [(5, False), (6, True)])
def test_too_few_episodes_have_no_interval(trained, capsys, episodes, known):
    found = evaluated(capsys, trained["pole"], "--episodes", episodes)
    assert [found[name] is not None for name in ("IqmLow", "IqmHigh")] == [known] * 2
    assert main(["eval", str(trained["pole"]), "--episodes", "1"]) == 0
    assert "IqmLow |                 |" in capsys.readouterr().out


def evaluated(capsys, *words):
    assert main(["eval", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_eval_obeys_its_options(trained, capsys):
    base = (trained["pole"], "--episodes", 6)
    greedy = evaluated(capsys, *base)
    assert evaluated(capsys, *base, "--deterministic") == greedy
    assert evaluated(capsys, *base, "--seed", 3) != greedy
    noisy = evaluated(capsys, *base, "--stochastic")
    assert noisy != greedy
    assert evaluated(capsys, *base, "--stochastic") == noisy
    short = evaluated(capsys, *base, "--max-len", 3, "--model", "best")
    assert [episode["EpLen"] for episode in short["episodes"]] == [3] * 6
    assert (short["AverageEpRet"], short["StdEpRet"], short["EpLen"]) == (3, 0, 3)


def test_a_model_can_be_asked_for_by_its_step(trained, tmp_path, in_tmp, capsys):
    run, obs = trained["pole"], np.full(4, 0.1)
    kept = Policy.load(run / "models" / "64" / "policy.npz")
    last, _ = jaxrl.load(run)
    assert (kept.layers[0][0] != last.layers[0][0]).any()  # learned in between
    np.testing.assert_array_equal(jaxrl.load(run, 64)[0](obs), kept(obs))
    assert evaluated(capsys, run, "-n", 2, "--model", 128) == evaluated(
        capsys, run, "--episodes", 2
    )
    assert main(["export", str(run), "--model=64", "-o", "policy.npz"]) == 0
    for one, other in zip(Policy.load("policy.npz").layers, kept.layers, strict=True):
        np.testing.assert_array_equal(one[0], other[0])


@pytest.mark.parametrize("command", ["eval", "video", "export"])
def test_an_unknown_step_is_answered_with_those_there_are(trained, command, capsys):
    assert main([command, str(trained["pole"]), "--model", "65"]) == 2
    assert re.search(" 65.* best, last, 64, 128\n", capsys.readouterr().err)


@pytest.mark.parametrize("command", ["eval", "plot", "export", "report"])
def test_looking_at_a_run_does_not_import_jax(trained, command, tmp_path):
    options = {"eval": ["--episodes", "1"], "plot": ["-o", str(tmp_path / "a.svg")]}
    options["export"] = ["-o", str(tmp_path / "a.npz")]
    options["report"] = ["-o", str(tmp_path / "a.html")]
    code = "import sys; from jaxrl.cli.main import main; main(sys.argv[1:]); "
    code += "raise SystemExit('jax' in sys.modules)"
    words = [command, str(trained["pole"]), *options[command]]
    done = subprocess.run([sys.executable, "-c", code, *words], check=False)
    assert done.returncode == 0


# Export and video


def test_export_writes_the_policy_that_eval_plays(trained, tmp_path, capsys):
    output = tmp_path / "policy.npz"
    assert main(["export", str(trained["count"]), "-o", str(output)]) == 0
    assert "2 observations" in capsys.readouterr().out
    obs = np.array([3.0, 0.0])
    loaded, _ = jaxrl.load(str(trained["count"]))
    np.testing.assert_array_equal(Policy.load(output)(obs), loaded(obs))
    assert main(["export", str(trained["count"]), "-o", str(tmp_path / "a.h5")]) == 2
    assert ".npz or .onnx" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [output]


VIDEO = """
import sys, imageio.v2 as imageio
from jaxrl.cli.main import main
assert main(sys.argv[1:]) == 0
pictures = [picture for picture in imageio.get_reader(sys.argv[-1])]
print(len(pictures), *pictures[0].shape[:2])
"""


@pytest.mark.parametrize(("suffix", "count"), [(".mp4", 12), (".gif", 6)])
def test_a_video_has_a_frame_for_each_step_shown(trained, tmp_path, suffix, count):
    output = tmp_path / f"agent{suffix}"
    words = ["video", trained["pole"], "--episodes=2", "--max_len=6", "-o", output]
    # In a separate process, because ffmpeg forks and JAX has threads here.
    command = [sys.executable, "-c", VIDEO, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # CartPole runs at 50 pictures a second, of which a .gif shows 25; 400 rows, and
    # the strip with the numbers
    assert done.stdout.splitlines()[-1] == f"{count} 440 600"
    assert list(tmp_path.iterdir()) == [output]


def test_the_numbers_are_drawn_into_the_picture():
    black = np.zeros((101, 301, 3), np.uint8)
    one = video.add_caption(black, evaluation.EpisodeStep(1, 1.0, 1, False))
    two = video.add_caption(black, evaluation.EpisodeStep(1, 22.0, 1, False))
    assert one.shape == (124, 300, 3)  # even, as videos must be
    assert (one[24:] == 0).all()
    assert (one[:24] != two[:24]).any()


def test_opengl_is_found_or_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "")  # so that it is put back in the end
    monkeypatch.delenv("MUJOCO_GL")
    tried = []

    def only_osmesa(command, env, **_):
        tried.append(env["MUJOCO_GL"])
        return subprocess.CompletedProcess(command, env["MUJOCO_GL"] != "osmesa")

    monkeypatch.setattr(subprocess, "run", only_osmesa)
    arguments = video.render_kwargs("Hopper-v4")
    assert (tried, os.environ["MUJOCO_GL"]) == (["egl", "osmesa"], "osmesa")
    assert arguments["render_mode"] == "rgb_array"
    monkeypatch.setenv("MUJOCO_GL", "egl")
    with pytest.raises(UserError, match=r"egl.*libegl1"):
        video.render_kwargs("Hopper-v4")


# Mistakes


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["eval"], "DIR"),
        (["eval", "none"], "none"),
        (["eval", "r"], "ppo"),  # the run inside
        (["eval", "RUN"], "'last'"),
        (["eval", "RUN", "--epsiodes", "3"], "'--episodes'"),
        (["eval", "RUN", "--episodes", "-1"], "whole number"),
        (["eval", "RUN", "--stochastic", "--deterministic"], "--deterministic"),
        (["eval", "RUN", "--model", "newest"], "last, best"),
        (["export", "RUN"], "'last'"),
        (["video", "RUN", "--episodes", "x"], "whole number"),
        (["plot"], "PATH"),
        (["plot", "nowhere"], "nowhere"),
        (["plot", "empty"], "empty"),
        (["plot", "RUN", "-y", "AverageEpRte"], "'AverageEpRet'"),
        (["plot", "RUN", "-y", "zzz"], "TotalEnvInteracts, AverageEpRet"),
        (["plot", "RUN", "-y", "Gap"], "'gap'"),
        (["plot", "RUN", "-x", "Tiem"], "'Tiem'"),
        (["plot", "r", "-y", "LossQ"], "1 of 2 runs"),
        (["plot", "r", "-y", "LossQ", "--suite"], "1 of 2 runs"),
        (["plot", "RUN", "-x", "AverageEpRet"], "x axis"),
        (["plot", "RUN", "--group", "gama"], "'gamma'"),
        (["plot", "RUN", "--legend", "a", "b"], "--legend has 2"),
        (["plot", "RUN", "--select", "sac*"], "--select"),
        (["plot", "RUN", "--est", "max"], "median"),
        (["plot", "RUN", "-y", "hollow"], "hollow"),
        (["plot", "RUN", "-o", "a.jpg"], ".png, .svg or .pdf"),
        (["plot", "RUN", "-o", "no/a.png"], "no "),
        (["plot", "RUN", "-o", "/proc/a.png"], "/proc/a.png"),
        (["plot", "RUN", "--show"], "display"),
        (["plot", "young"], "ppo_s0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_end_in_a_sentence_and_leave_nothing(
    words, part, in_tmp, monkeypatch, capsys
):
    monkeypatch.setenv("MPLBACKEND", "agg")
    others = {"gap": [1, 1], "hollow": ["", ""]}
    run = write_run(in_tmp / "r", "ppo", 0, log([1, 2], [2, 1], **others), gamma=1)
    write_run(in_tmp / "r", "sac", 0, log([1, 2], [1, 2], LossQ=[1, 1]), "sac")
    write_run(in_tmp / "young", "ppo", 0, log([], []))
    (in_tmp / "empty").mkdir()
    before = sorted(in_tmp.rglob("*"))
    assert main([str(run) if word == "RUN" else word for word in words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("jaxrl: ")
    assert part in error
    assert len(error.splitlines()) <= 2
    assert sorted(in_tmp.rglob("*")) == before


@pytest.mark.parametrize(
    "command",
    ["plot", "report", "eval"],
)
def test_only_a_running_run_is_said_to_have_no_data_yet(in_tmp, command, capsys):
    run = write_run(in_tmp, "ppo", 0, log([], []))
    with directory.locked(run):
        assert main([command, str(run)]) == 2
    assert "yet" in capsys.readouterr().err
    assert main([command, str(run)]) == 2
    assert "yet" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["eval", "video", "export"])
def test_a_damaged_model_is_named(trained, tmp_path, in_tmp, command, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained["pole"], run)
    (run / "models" / "last" / "policy.npz").write_bytes(b"broken")
    assert main([command, str(run)]) == 2
    error = capsys.readouterr().err
    assert "policy.npz" in error


def test_an_environment_that_has_changed_is_named(trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained["pole"], run)
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump(config | {"env": "Acrobot-v1"}))
    assert main(["eval", str(run)]) == 2
    assert "Acrobot-v1" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["eval", "video", "plot", "export", "report"])
def test_help_shows_every_option(command, capsys):
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: jaxrl {command} ")
    assert max(map(len, text.splitlines())) <= 88
