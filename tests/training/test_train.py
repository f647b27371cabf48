"""From a command to a trained policy."""

import csv
import importlib.util
import io
import json
import math
import re
import resource
import subprocess
import sys
import types
from pathlib import Path

import jax
import numpy as np
import pytest
import yaml
from small_runs import SMALL_ON, events, jaxrl_command, small, timeless, train
from support import SPEC, algorithms, small_config

import jaxrl
from jaxrl.cli.main import main
from jaxrl.envs import make as make_envs
from jaxrl.errors import UserError
from jaxrl.logging.columns import CLOCKS
from jaxrl.logging.csv_file import Csv
from jaxrl.logging.logger import EpochLogger
from jaxrl.logging.stats import Stats, merge
from jaxrl.logging.tensorboard import TensorBoard
from jaxrl.logging.terminal import Terminal, clock, table
from jaxrl.logging.wandb import Wandb, WandbOptions
from jaxrl.policy import Policy
from jaxrl.runs import reading
from jaxrl.runs import spec as specs
from jaxrl.training import acting, user_env
from jaxrl.training.buffers import HostReplay, unpack
from jaxrl.types import Box, Discrete, EnvSpec

# The run


@pytest.mark.parametrize("algo", ["vpg", "trpo", "ppo", "ddpg", "td3", "sac"])
def test_two_runs_of_one_command_write_the_same_table(tmp_path, algo):
    one = train(tmp_path / "a", algo, "Pendulum-v1")
    two = train(tmp_path / "b", algo, "Pendulum-v1")
    other = train(tmp_path / "c", algo, "Pendulum-v1", seed=1)
    assert timeless(one.history) == timeless(two.history)
    assert timeless(one.history) != timeless(other.history)
    total = 128 if algo in ("vpg", "trpo", "ppo") else 120
    assert one.history[-1]["TotalEnvInteracts"] == total
    assert all(np.isfinite(x) for x in one.history[-1].values() if x is not None)


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_several_environments_count_their_steps_together(tmp_path, algo):
    fewer = {"minibatches": 2} if algo == "ppo" else {}
    result = train(tmp_path, algo, "Pendulum-v1", num_envs=4, **fewer)
    assert result.history[-1]["TotalEnvInteracts"] == (128 if algo == "ppo" else 120)


def test_many_environments_act_through_jit(tmp_path):
    result = train(tmp_path, "ppo", "CartPole-v1", num_envs=16, minibatches=2)
    assert result.history[-1]["TotalEnvInteracts"] == 128


def test_evaluation_does_not_change_training(tmp_path):
    with_tests = train(tmp_path / "a", "sac", "Pendulum-v1", num_test_episodes=3)
    without = train(tmp_path / "b", "sac", "Pendulum-v1", num_test_episodes=0)
    columns = set(without.history[0]) - set(CLOCKS)
    assert "AverageTestEpRet" not in columns
    for a, b in zip(with_tests.history, without.history, strict=True):
        assert {name: a[name] for name in columns} == {
            name: b[name] for name in columns
        }


def test_an_epoch_without_an_episode_or_an_update_has_empty_cells(tmp_path):
    result = train(
        tmp_path, "sac", "Pendulum-v1", max_ep_len=100, update_after=70, epochs=2
    )
    first = result.history[0]
    assert first["AverageEpRet"] is None
    assert first["LossQ"] is None
    assert result.history[1]["LossQ"] is not None
    text = (result.directory / "progress.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert rows[0]["AverageEpRet"] == ""
    assert float(rows[1]["AverageEpRet"]) < 0


def test_the_columns_are_spinning_ups_in_its_order(tmp_path):
    ppo = train(tmp_path, "ppo", "CartPole-v1").history[0]
    four = lambda name: [f"{kind}{name}" for kind in ("Average", "Std", "Max", "Min")]  # noqa: E731
    begin = ["Epoch", *four("EpRet"), "EpLen", *four("VVals"), "TotalEnvInteracts"]
    begin += ["LossPi", "LossV", "DeltaLossPi", "DeltaLossV", "Entropy", "KL"]
    begin += ["ClipFrac", "StopIter"]
    assert list(ppo)[: len(begin)] == begin
    assert {"ExplainedVariance", "LearningRate", *CLOCKS} <= set(ppo)
    sac = train(tmp_path, "sac", "Pendulum-v1").history[0]
    begin = ["Epoch", *four("EpRet"), *four("TestEpRet"), "EpLen", "TestEpLen"]
    begin += ["TotalEnvInteracts", *four("Q1Vals"), *four("Q2Vals"), *four("LogPi")]
    begin += ["LossPi", "LossQ"]
    assert list(sac)[: len(begin)] == begin


def test_a_full_disk_stops_the_run_and_leaves_no_half_event(tmp_path):
    board = TensorBoard(tmp_path / "tb", 0)
    board.write({"x": 1.0}, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"No space left|File too large"):
            board.write({f"x{i}": 1.0 for i in range(1000)}, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    board.write({"x": 1.0}, 3)
    board.close()
    assert [event.step for event in events(tmp_path)] == [0, 1, 3]


@pytest.mark.parametrize("value", [10**30, 10**400, [1], None, {"a": 1}], ids=range(5))
def test_tensorboard_describes_a_run_with_odd_settings(tmp_path, value):
    board = TensorBoard(tmp_path / "tb", 0)
    board.describe({"setting": value}, ["EpRet"])
    board.close()
    assert len(list(events(tmp_path))) == 3


def test_tensorboard_shows_curves_and_settings_as_one_run(tmp_path):
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    run = train(tmp_path, "ppo", "CartPole-v1", gamma=0.9, target_kl=math.inf)
    values = [value for event in events(run.directory) for value in event.summary.value]
    content = [value.metadata.plugin_data.content for value in values[:2]]
    experiment, start = map(HParamsPluginData.FromString, content)
    shown = start.session_start_info.hparams
    assert shown["gamma"].number_value == 0.9
    assert shown["env"].string_value == "CartPole-v1"
    assert shown["target_kl"].string_value == "inf"
    assert [m.name.tag for m in experiment.experiment.metric_infos] == ["AverageEpRet"]
    rewards = [x.simple_value for x in values if x.tag == "AverageEpRet"]
    assert rewards == pytest.approx([row["AverageEpRet"] for row in run.history])


def test_the_run_directory_has_config_models_and_tensorboard(tmp_path):
    result = train(tmp_path, "td3", "Pendulum-v1", gamma=0.9, seed=3)
    assert result.directory == tmp_path / "td3-Pendulum-v1" / "td3-Pendulum-v1_s3"
    config = yaml.safe_load((result.directory / "config.yaml").read_text())
    assert config["algo"] == "td3"
    assert config["settings"]["gamma"] == 0.9
    assert config["settings"]["hidden"] == [8]
    assert config["machine"]["versions"]["jax"] == jax.__version__
    assert list((result.directory / "tb").iterdir())
    for model in ("last", "best"):
        meta = json.loads(
            (result.directory / "models" / model / "model.json").read_text()
        )
        assert meta == {"algo": "td3", "env": "Pendulum-v1", "step": meta["step"]}
        policy = Policy.load(result.directory / "models" / model / "policy.npz")
        assert policy.action == Box((-2.0,), (2.0,))
        assert len(policy.layers) == 2


@pytest.mark.parametrize(
    ("keep", "steps"),
    [
        (20, [64, 128, 192, 256, 320]),
        (2, [192, 320]),  # of five epochs the third and the last
        (1, [320]),
        (0, []),
    ],
)
def test_models_are_kept_evenly_over_the_run(tmp_path, keep, steps):
    path = train(tmp_path, "vpg", "CartPole-v1", epochs=5, keep_models=keep).directory
    kept = [p for p in (path / "models").iterdir() if p.name.isdecimal()]
    assert sorted(int(model.name) for model in kept) == steps
    found = {int(p.name): json.loads((p / "model.json").read_text()) for p in kept}
    assert all(meta["step"] == step for step, meta in found.items())


def test_save_every_keeps_the_model_of_every_nth_epoch(tmp_path):
    settings = {"epochs": 5, "keep_models": 1, "save_every": 2}
    path = train(tmp_path, "vpg", "CartPole-v1", **settings).directory
    kept = [p.name for p in (path / "models").iterdir() if p.name.isdecimal()]
    assert sorted(map(int, kept)) == [128, 256, 320]


def test_metrics_of_on_epoch_are_logged(tmp_path):
    result = jaxrl.train(
        "ppo",
        "CartPole-v1",
        screen=False,
        out=str(tmp_path),
        on_epoch=lambda state, step: {"nested/metric": 2 * step},
        **SMALL_ON | {"epochs": 3},
    )
    assert [row.get("nested/metric") for row in result.history] == [128, 256, 384]


def test_a_metric_that_appears_later_has_its_column_from_then_on(tmp_path):
    def late(state, step):
        return {"b": step, "a": 1} if step > 64 else {"c": 2}

    settings = SMALL_ON | {"epochs": 3, "out": str(tmp_path)}
    result = jaxrl.train("ppo", "CartPole-v1", screen=False, on_epoch=late, **settings)
    assert [row["b"] for row in result.history] == [None, 128, 192]
    assert [row["c"] for row in result.history] == [2, None, None]
    assert list(result.history[0]) == list(result.history[2])
    assert list(result.history[0])[-3:] == ["c", "b", "a"]
    text = (result.directory / "progress.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["b"] for row in rows] == ["", "128", "192"]
    read = reading.record(result.directory).progress
    np.testing.assert_array_equal(read["b"], [np.nan, 128, 192])


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ({"Epoch": 7}, "Epoch is a column"),
        ({"AverageEpRet": 7}, "AverageEpRet is a column"),
        ({"a\nb": 7}, "one line"),
        (3, "got 3"),
        ({"x": "abc"}, "x is 'abc'"),
    ],
)
def test_metrics_that_cannot_be_logged_are_refused(tmp_path, returned, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        jaxrl.train(
            "vpg",
            "Pendulum-v1",
            screen=False,
            out=str(tmp_path),
            on_epoch=lambda state, step: returned,
            **SMALL_ON,
        )


def test_a_closed_stdout_does_not_stop_a_run(tmp_path, monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Closed())
    settings = SMALL_ON | {"epochs": 4, "out": str(tmp_path)}
    result = jaxrl.train("vpg", "Pendulum-v1", **settings)
    assert len(result.history) == 4


def test_a_users_own_environment_is_imported_by_name(tmp_path):
    result = train(tmp_path, "ppo", "own_envs:Count-v0", env_kwargs="{length: 8}")
    assert result.history[-1]["EpLen"] == 8


@pytest.mark.parametrize("fault", ["reward", "observation"])
def test_a_nan_from_the_environment_stops_the_run(tmp_path, fault):
    with pytest.raises(FloatingPointError, match=f"the {fault} is not finite"):
        train(tmp_path, "ppo", "own_envs:Count-v0", env_kwargs={"fault": fault})


# The environments


def test_the_observation_after_a_reset_never_leaks():
    envs = make_envs("own_envs:Count-v0", 2, 0, 1000, {"length": 3})
    seen = []
    for _ in range(4):
        obs = envs.obs[0, 0]
        after = envs.step(np.zeros((2, 1), np.float32))
        seen.append(
            (float(obs), float(after.next_obs[0, 0]), bool(after.terminated[0]))
        )
    assert seen == [(0, 1, False), (1, 2, False), (2, 3, True), (0, 1, False)]
    # the middle of -2 and 6 is 2, for three steps
    assert [tuple(e) for e in envs.take_finished()] == [(6, 3), (6, 3)]


@pytest.mark.parametrize(
    ("kind", "length", "limit", "terminated"),
    [
        ("terminated", 3, 1000, True),
        ("truncated", 3, 1000, False),
        ("terminated", 9, 3, False),
        ("terminated", 3, 3, True),
    ],
)
def test_a_time_limit_is_a_truncation(kind, length, limit, terminated):
    kwargs = {"length": length, "kind": kind}
    envs = make_envs("own_envs:Count-v0", 1, 0, limit, kwargs)
    for _ in range(3):
        after = envs.step(np.zeros((1, 1), np.float32))
    assert (bool(after.terminated[0]), bool(after.truncated[0])) == (
        terminated,
        not terminated,
    )


def test_environments_are_seeded_apart_and_alike():
    one, same = (make_envs("Pendulum-v1", 2, 7, 1000) for _ in "ab")
    np.testing.assert_array_equal(one.obs, same.obs)
    assert not np.array_equal(one.obs[0], one.obs[1])


def test_mujoco_of_both_versions_steps():
    for name in ("Hopper-v4", "Hopper-v5"):
        envs = make_envs(name, 1, 0, 1000)
        assert envs.spec.action == Box((-1.0,) * 3, (1.0,) * 3)
        assert np.isfinite(envs.step(np.zeros((1, 3), np.float32)).next_obs).all()


def test_envpool_is_an_extra_that_says_how_to_get_it(tmp_path):
    try:
        import envpool  # noqa: F401
    except ImportError:
        with pytest.raises(specs.UserError, match=r"pip install 'jaxrl\[envpool\]'"):
            train(tmp_path, "ppo", "envpool/CartPole-v1")
        return
    result = train(tmp_path, "ppo", "envpool/CartPole-v1", num_envs=4, minibatches=2)
    assert result.history[-1]["EpLen"] > 5


def test_exactly_start_steps_actions_are_random(tmp_path, monkeypatch):
    kept = []
    insert = HostReplay.insert
    monkeypatch.setattr(
        HostReplay,
        "insert",
        lambda self, *row: (kept.append(row[1]), insert(self, *row)),
    )
    constant = np.float32(0.125)
    monkeypatch.setattr(
        acting.Actor, "__call__", lambda self, obs, rng=None: np.full((4, 1), constant)
    )
    train(
        tmp_path, "sac", "Pendulum-v1", num_envs=4, start_steps=30, num_test_episodes=0
    )
    actions = np.concatenate(kept).ravel()
    assert len(actions) == 120
    assert (actions[:30] != constant).all()
    assert (actions[30:] == constant).all()


# Acting and experience


@algorithms
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "gelu", "silu"])
def test_the_numpy_policy_is_the_algorithms(algo, normalize, activation, key):
    config = small_config(algo, normalize_obs=normalize, activation=activation)
    state = algo.init(key, SPEC, config)
    obs = np.asarray(3 * jax.random.normal(key, (200, 3)))
    policy = acting.numpy_policy(state)
    np.testing.assert_allclose(policy(obs), algo.act(state, obs), atol=1e-6)


@algorithms
def test_the_numpy_policy_explores_alike(algo, key):
    state = algo.init(key, SPEC, small_config(algo))
    obs = np.ones((20_000, 3), np.float32)
    ours = acting.numpy_policy(state)(obs, np.random.default_rng(0))
    theirs = np.asarray(algo.act(state, obs, key))
    np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=0.02)
    np.testing.assert_allclose(ours.std(0), theirs.std(0), rtol=0.03)


def test_the_numpy_policy_chooses_by_the_logits(key):
    from jaxrl.algos import ppo

    state = ppo.init(key, EnvSpec(3, Discrete(3)), ppo.Config(initializer="uniform"))
    obs = np.full((30_000, 3), 2.0, np.float32)
    logits = state.networks.actor.apply(state.actor.params, obs[:1]).logits
    chosen = acting.numpy_policy(state)(obs, np.random.default_rng(0))
    frequencies = np.bincount(chosen, minlength=3) / len(obs)
    np.testing.assert_allclose(frequencies, jax.nn.softmax(logits)[0], atol=0.01)


def test_the_replay_buffer_returns_what_was_inserted():
    envs = make_envs("own_envs:Count-v0", 1, 0, 1000, {"length": 3})
    ring = HostReplay(4, envs.spec)
    for step in range(6):
        obs = envs.obs.copy()
        action = np.full((1, 1), step / 10, np.float32)
        ring.insert(obs, action, envs.step(action))
    rows = unpack(ring.rows, envs.spec.obs_size)
    # steps 4 and 5 stand where 0 and 1 were; a step of the action is 4 units of reward
    np.testing.assert_allclose(rows.obs[:, 0], [1, 2, 2, 0])
    np.testing.assert_allclose(rows.next_obs[:, 0], [2, 3, 3, 1])
    np.testing.assert_allclose(rows.action[:, 0], [0.4, 0.5, 0.2, 0.3], rtol=1e-6)
    np.testing.assert_allclose(rows.reward, [3.6, 4.0, 2.8, 3.2], rtol=1e-5)
    np.testing.assert_array_equal(rows.terminated, [False, True, True, False])


def test_the_replay_buffer_samples_only_filled_rows():
    ring = HostReplay(10, EnvSpec(1, Box((-1.0,), (1.0,))))
    ring.rows[:, 0] = np.arange(10)
    ring.inserted = 6
    drawn = ring.sample(np.random.default_rng(0), 50, 8)
    assert drawn.shape == (50, 8, 5)
    assert set(drawn[..., 0].ravel()) == set(range(6))


# The logger


def test_merged_statistics_are_those_of_the_pooled_samples():
    rng = np.random.default_rng(0)
    parts = [rng.normal(5, 3, size) for size in (1, 0, 7, 100)]
    total = Stats()
    for part in parts:
        total = merge(total, Stats.from_values(part))
    pooled = np.concatenate(parts)
    assert total.n == 108
    np.testing.assert_allclose(
        [total.mean, total.std, total.min, total.max],
        [pooled.mean(), pooled.std(), pooled.min(), pooled.max()],
    )


def test_a_metric_missing_in_the_first_row_is_empty_there():
    logger = EpochLogger(["a"], {"x/late"}, [], dict)
    logger.store(a=1)
    logger.dump(1)
    logger.store(**{"x/late": [1, 3]})
    row = logger.dump(2)
    assert row == {
        "a": None,
        "x/Averagelate": 2,
        "x/Stdlate": 1,
        "x/Maxlate": 3,
        "x/Minlate": 1,
    }
    assert logger.history[0] == dict.fromkeys(row) | {"a": 1}


def test_the_table_is_aligned_and_the_clock_shows_hours():
    assert clock(3725.4) == "1:02:05"
    lines = table({"Epoch": 1, "AverageEpRet": None}.items()).splitlines()
    assert lines[1].split() == ["|", "Epoch", "|", "1", "|"]
    assert lines[2].split() == ["|", "AverageEpRet", "|", "|"]
    assert len({len(line) for line in lines}) == 1


def test_the_time_left_follows_the_speed_of_the_last_epochs(monkeypatch):
    now, shown = 0.0, io.StringIO()
    monkeypatch.setattr("jaxrl.logging.pace.time.perf_counter", lambda: now)
    screen = Terminal(10_000, stream=shown)
    paces = [10, *[100] * 5, *[50] * 5]  # the first epoch compiles
    for epoch, pace in enumerate(paces, 1):
        now += 100 / pace
        screen.updated(100 * epoch, 100)
        screen.write({"Epoch": epoch}, 100 * epoch)
    lines = shown.getvalue().splitlines()
    shown = {1: ("100/10000", " 10 steps/s", "0:16:30"), 6: (" 100 steps/s",)}
    shown |= {2: ("200/10000", " 100 steps/s", "0:01:38")}
    shown |= {11: ("1100/10000", " 50 steps/s", "0:02:58")}
    for epoch, parts in shown.items():
        assert f"epoch {epoch} " in lines[epoch - 1]
        assert all(part in lines[epoch - 1] for part in parts)


def test_the_time_left_is_by_updates_that_were_made(monkeypatch):
    now, shown = 0.0, io.StringIO()
    monkeypatch.setattr("jaxrl.logging.pace.time.perf_counter", lambda: now)
    screen = Terminal(10_000, stream=shown)
    now += 0.1  # random steps, with no update among them
    screen.write({"Epoch": 1}, 1000)
    assert "left" not in shown.getvalue()
    for _ in range(3):
        screen.compiling(1000)
        now += 10
    screen.compiled()
    assert shown.getvalue().count("compiling") == 1
    for step in (1000, 1050, 1100):
        screen.updated(step, 50)
        now += 1 if step < 1100 else 0
    screen.write({"Epoch": 2}, 1100)
    assert "50 steps/s  0:02:58 left" in shown.getvalue()


class Screen(io.StringIO):
    """A terminal that keeps what it shows."""

    def isatty(self):
        return True


def shown_on_a_screen(monkeypatch, **environment):
    for name, value in ({"TERM": "xterm-256color"} | environment).items():
        monkeypatch.setenv(name, value)
    screen = Screen()
    terminal = Terminal(1_000_000, stream=screen)
    terminal.print("one")
    for step in (100_000, 200_000):
        terminal.updated(step, 100_000)
        terminal.write({"Epoch": 1, "AverageTestEpRet": -1234.5}, step)
    terminal.close()
    return screen.getvalue()


def test_the_live_line_fits_into_60_columns(monkeypatch):
    shown = shown_on_a_screen(monkeypatch, COLUMNS="60")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n").split("\n")
    assert all(len(line) <= 60 for line in lines)
    last = {line for line in lines if "200000/1000000 steps" in line}
    assert last
    assert all(line.endswith(" left") for line in last)
    assert all("━━━" in line for line in last)


def test_the_live_line_has_a_bar_and_colours_where_there_is_room(monkeypatch):
    shown = shown_on_a_screen(monkeypatch, COLUMNS="120")
    assert "━━━" in shown
    colour = r"\x1b\[[0-9;]*3[0-9]"
    assert re.search(colour, shown)
    shown = shown_on_a_screen(monkeypatch, COLUMNS="120", NO_COLOR="1")
    assert "━━━" in shown
    assert not re.search(colour, shown)


def test_a_terminal_without_control_codes_gets_plain_lines(monkeypatch):
    shown = shown_on_a_screen(monkeypatch, TERM="dumb")
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 3


def test_what_a_user_prints_stands_above_the_live_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    terminal = Terminal(100)
    terminal.progress(1)
    print("mine")
    terminal.close()
    print("after")
    assert sys.stdout is screen
    # What stands in each line after it was last erased.
    lines = [line.rpartition("\x1b[2K")[2] for line in screen.getvalue().splitlines()]
    assert "mine" in lines
    assert lines[-1].endswith("after")


def test_a_notebook_without_widgets_gets_plain_lines(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", None)
    find = importlib.util.find_spec
    absent = lambda name, *rest: None if name == "ipywidgets" else find(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", absent)
    cell = io.StringIO()
    Terminal(100, stream=cell).write({"Epoch": 1}, 50)
    assert "50/100 steps" in cell.getvalue()
    assert "\x1b" not in cell.getvalue()


def test_csv_rows_are_written_immediately(tmp_path):
    sink = Csv(tmp_path / "progress.csv")
    sink.write({"a": 1, "b": None}, 1)
    assert (tmp_path / "progress.csv").read_text() == "a,b\n1,\n"
    sink.close()


def test_a_later_column_is_empty_in_earlier_rows(tmp_path):
    file = tmp_path / "progress.csv"
    sink = Csv(file)
    sink.write({"a": 1.5}, 1)
    reader = file.open()
    sink.write({"a": 2, "x/b,c": 3}, 2)
    sink.write({"a": None, "x/b,c": 4}, 3)
    sink.close()
    assert file.read_text() == 'a,"x/b,c"\n1.5,\n2,3\n,4\n'
    assert reader.read() == "a\n1.5\n"  # it was replaced, not written over
    reader.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["progress.csv"]
    again = Csv(file)
    again.write({"a": 5, "x/b,c": 6}, 4)
    again.close()
    assert file.read_text().endswith("\n5,6\n")


def test_weights_and_biases_keeps_an_offline_run(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    settings = small("ppo", out=tmp_path, exp_name="x", epochs=3)
    words = [f"--{name}={value}" for name, value in settings.items()]
    done = jaxrl_command("train", "ppo", "--env", "CartPole-v1", "--wandb", *words)
    assert done.returncode == 0, done.stderr
    (log,) = (tmp_path / "x" / "x_s0" / "wandb").glob("offline-run-*/*.wandb")
    content = log.read_bytes()
    assert b"AverageEpRet" in content
    assert b"steps_per_epoch" in content
    assert "x_s0 --wandb" in done.stdout  # how to resume it
    for words in (["--steps", 256], ["--steps", 320, "--wandb"]):
        again = jaxrl_command("resume", tmp_path / "x" / "x_s0", *words)
        assert again.returncode == 0, again.stderr
        assert ("nothing is sent" in again.stdout) == ("--wandb" not in words)
    logs = (tmp_path / "x" / "x_s0" / "wandb").glob("offline-run-*/*.wandb")
    assert len({file.name for file in logs}) == 1  # the same run, as W&B sees it


def offline_log(run):
    (log,) = (run / "wandb").glob("offline-run-*/*.wandb")
    return log.read_bytes()


def test_weights_and_biases_gets_project_group_tags_notes_and_models(
    tmp_path, monkeypatch
):
    variables = {"MODE": "offline", "PROJECT": "my-project", "ENTITY": "my-team"}
    for name, value in variables.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    settings = small("ppo", out=tmp_path, exp_name="x", epochs=2)
    words = [f"--{name}={value}" for name, value in settings.items()]
    words += ["--wandb", "--wandb_tags", "red,blue", "--wandb_notes", "try it"]
    words += ["--env", "CartPole-v1", "--wandb_models"]
    done = jaxrl_command("train", "ppo", *words)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "x" / "x_s0"
    content = offline_log(run)
    for part in (b"my-project", b"my-team", b"red", b"blue", b"try it"):
        assert part in content
    assert b"step-128" in content
    assert b"policy.npz" in content
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["wandb_tags"] == ["red", "blue"]
    again = jaxrl_command("resume", run, "--steps", 192, "--wandb")
    assert again.returncode == 0, again.stderr
    logs = list((run / "wandb").glob("offline-run-*/*.wandb"))
    assert len({file.name for file in logs}) == 1  # the same run, as W&B sees it
    assert any(b"step-192" in file.read_bytes() for file in logs)


def test_a_run_of_a_grid_is_in_its_group_at_weights_and_biases(tmp_path, monkeypatch):
    class Run:
        def __init__(self, **given):
            given_to.append(given)

    given_to = []
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=Run))
    path = tmp_path / "my-grid" / "ppo" / "ppo_s0"
    path.mkdir(parents=True)
    Wandb(path, WandbOptions(config={"exp_name": "ppo"}))
    path.with_name("ppo_s0.yaml").touch()
    Wandb(path, WandbOptions(config={"exp_name": "ppo"}))
    monkeypatch.setenv("WANDB_RUN_GROUP", "mine")
    Wandb(path, WandbOptions(config={"exp_name": "ppo"}))
    assert [given["group"] for given in given_to] == ["ppo", "my-grid", "mine"]
    assert given_to[0]["project"] == "jaxrl"


def test_what_only_weights_and_biases_uses_is_noted_without_it(tmp_path, capsys):
    settings = small("ppo", out=str(tmp_path), wandb_tags=["a"], wandb_models=True)
    jaxrl.train("ppo", "CartPole-v1", **settings)
    printed = capsys.readouterr().out
    assert "wandb_tags" in printed
    assert "wandb_models" in printed
    assert "wandb_notes" not in printed


# The command


COMMAND = "from jaxrl.cli.main import main; raise SystemExit(main())"


def test_the_train_command_prints_where_results_are(tmp_path):
    done = jaxrl_command(
        *("train", "ppo", "--env", "CartPole-v1", "--out", tmp_path, "--epochs=2"),
        *("--steps-per-epoch", "64", "--hidden", "8,8", "--exp_name", "5"),
    )
    assert done.returncode == 0, done.stderr
    assert "epoch 2  128/128 steps" in done.stdout
    assert f"results in {tmp_path}/5/5_s0" in done.stdout
    again = jaxrl_command(
        "train", "ppo", "--env", "CartPole-v1", "--out", tmp_path, "--exp_name", "5"
    )
    assert again.returncode == 2
    assert "--overwrite" in again.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "'train'"),
        (["train"], "vpg, trpo, ppo, ddpg, td3, sac"),
        (["train", "sca"], "'sac'"),
        (["train", "sac"], "environment"),
        (["train", "sac", "--env", "Hoper-v4"], "Hopper-v4"),
        (["train", "sac", "--env", "nomodule:X-v0"], "cannot import 'nomodule'"),
        (["train", "sac", "--env", "Hopper-v2"], "Hopper-v5"),
        (["train", "sac", "--env"], "--env ID"),
        (["train", "sac", "--config"], "--config FILE"),
        (
            ["train", "sac", "--num-procs", "--env", "Pendulum-v1"],
            "--num_procs N",
        ),
        (["train", "SAC", "--env", "Pendulum-v1"], "'sac'"),
        (
            ["train", "sac", "--env", "Pendulum-v1", "--gama", "1"],
            "'gamma'",
        ),
        (["train", "sac", "--env", "Pendulum-v1", "--lr", "fast"], "lr is 'fast'"),
        (["train", "sac", "--env", "Pendulum-v1", "--gamma", "1.5"], "in [0, 1]"),
        (["train", "sac", "--env", "CartPole-v1"], "discrete actions"),
        (["train", "sac", "--env", "Pendulum-v1", "stray", "word"], "'stray'"),
        (["train", "ppo", "--env", "CartPole-v1", "--preset", "x"], "no preset 'x'"),
        (["train", "ppo", "--env", "CartPole-v1", "--exp_name", "../x"], "exp_name"),
        (["train", "ppo", "--env", "CartPole-v1", "--out", "/proc/x"], "cannot write"),
        (
            ["train", "ppo", "--env", "CartPole-v1", "--config", "none.yaml"],
            "cannot read",
        ),
        (["train", "ppo", "--env", "CartPole-v1", "--env_kwargs", "3"], "a mapping"),
        (["train", "ppo", "--env", "CartPole-v1", "--num_envs", "3"], "multiple of 3"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_end_in_a_sentence_and_leave_nothing(
    words, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.splitlines()) <= 2
    assert not list(tmp_path.iterdir())


BAD_CONFIG = """\
algo: ppo
env: CartPol-v1
gama: 1
gamma: 2
preset: spinu
keep: 3
keep: 4
num-envs: 0
seed: -1
"""


def test_every_mistake_in_a_config_file_is_named_with_the_file_and_its_line(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(BAD_CONFIG)
    assert main(["train", "--config", "run.yaml", "--seed", "0"]) == 2
    head, *lines = capsys.readouterr().err.splitlines()
    assert "run.yaml" in head
    expected = [(2, "CartPole-v1"), (3, "'gamma'"), (4, "gamma is 2"), (5, "'spinup'")]
    expected += [(7, "line 6"), (8, "num_envs is 0")]  # and not the seed: a flag wins
    assert len(lines) == len(expected)
    for line, (number, part) in zip(lines, expected, strict=True):
        assert f"line {number}: " in line
        assert part in line
    Path("run.yaml").write_text("seed: 1\nalgo: sca\n")
    assert main(["train", "--config", "run.yaml"]) == 2
    assert re.search("run.yaml: line 2: .*'sac'", capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]


def test_a_number_is_no_directory_for_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="out is 3"):
        jaxrl.train("ppo", "CartPole-v1", out=3)
    assert not list(tmp_path.iterdir())


def test_flags_override_a_settings_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(
        "algo: ppo\nenv: CartPole-v1\npi_lr: 1e-3\nhidden: [8]\nsteps-per-epoch: 64\n"
        "steps: 64\nseed: 7\n"
    )
    assert main(["train", "--config", "run.yaml", "--seed", "2"]) == 0
    path = Path("runs/ppo-CartPole-v1/ppo-CartPole-v1_s2/config.yaml")
    config = yaml.safe_load(path.read_text())
    assert config["settings"]["pi_lr"] == 1e-3
    assert config["seed"] == 2
    assert "1e-3" not in capsys.readouterr().err


@algorithms
def test_help_names_every_setting(algo, capsys):
    name = algo.__name__.rpartition(".")[2]
    assert main(["train", name, "--help"]) == 0
    text = capsys.readouterr().out
    for setting in algo.Config.__dataclass_fields__:
        # The run sets it, by the number of its epochs.
        assert (f"--{setting}" in text) == (setting != "total_updates")
    for setting in type(algo.DATA).__dataclass_fields__:
        assert f"--{setting}" in text


def test_the_first_help_does_not_import_jax():
    code = "import sys; from jaxrl.cli.main import main; main(['--help']); "
    code += "raise SystemExit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_steps_in_all_are_kept_and_decay_ends_with_them():
    run = specs.make("ppo", "CartPole-v1", {"steps": "1e4"})
    assert run.total_steps == 10240  # whole epochs of 2048
    assert run.config.total_updates == 5
    assert specs.make("sac", "Pendulum-v1", {"steps": 777}).total_steps == 777


# Learning


def test_ppo_learns_the_cart_pole(tmp_path):
    result = jaxrl.train(
        "ppo", "CartPole-v1", steps=30_000, out=str(tmp_path), screen=False
    )
    assert result.history[-1]["AverageEpRet"] >= 475


def test_sac_learns_the_pendulum(tmp_path):
    settings = {"hidden": (64, 64), "lr": 1e-3, "batch_size": 128, "start_steps": 1000}
    settings |= {"steps": 8000, "steps_per_epoch": 1000, "out": str(tmp_path)}
    result = jaxrl.train("sac", "Pendulum-v1", screen=False, **settings)
    best = max(row["AverageTestEpRet"] for row in result.history)
    assert best >= -200


def test_an_on_epoch_that_is_no_function_leaves_the_earlier_run(tmp_path):
    earlier = train(tmp_path, "ppo", "CartPole-v1")
    with pytest.raises(UserError, match="on_epoch"):
        jaxrl.train(
            "ppo",
            "CartPole-v1",
            out=str(tmp_path),
            overwrite=True,
            screen=False,
            on_epoch=3,
        )
    assert (earlier.directory / "progress.csv").exists()


def test_a_run_in_swimmer_names_the_discount_that_it_needs():
    usual = specs.make("vpg", "Swimmer-v4", {})
    longer = specs.make("vpg", "Swimmer-v4", {"gamma": 0.9999})
    assert any("--gamma 0.9999" in note for note in user_env.notes(usual, None))
    assert user_env.notes(longer, None) == []
