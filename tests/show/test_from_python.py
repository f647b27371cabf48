"""jaxrl.runs, plot, report and record_video: what the commands do, from Python."""

import subprocess
import sys
import types

import gymnasium
import imageio.v3 as imageio
import imageio_ffmpeg
import jax.numpy as jnp
import numpy as np
import pytest
from fake_runs import log, write_run
from small_runs import train

import jaxrl
from jaxrl.errors import UserError
from jaxrl.runs import status
from jaxrl.runs.status import Status


@pytest.fixture
def runs(tmp_path):
    """Two finished seeds of one experiment, and one run without a row."""
    for seed in range(2):
        columns = log([10, 20], [1.0, 2.0 + seed])
        path = write_run(tmp_path, "a", seed, columns, steps=20, hidden=[8, 8 + seed])
        status.write(path / status.FILE, Status(state="finished", step=20))
    path = write_run(tmp_path, "b", 0, log([], []), algo="sac", steps=20)
    status.write(path / status.FILE, Status(state="failed", reason="no luck"))
    return tmp_path


def test_runs_have_settings_status_and_progress(runs):
    found = jaxrl.runs(runs)
    assert [run.name for run in found] == ["a_s0", "a_s1", "b_s0"]
    assert [run.status for run in found] == ["finished", "finished", "failed"]
    assert found["b_s0"].reason == "no luck"
    one = found[1]
    assert one.directory == runs / "a" / "a_s1"
    assert one.settings["algo"] == "ppo"
    assert one.settings["hidden"] == [8, 9]
    assert one.steps == 20
    np.testing.assert_array_equal(one.progress["AverageEpRet"], [1, 3])
    assert found[-1].progress == {}
    assert isinstance(found[:2], type(found))
    with pytest.raises(KeyError, match="c_s0"):
        found["c_s0"]
    assert len(repr(found)) < 80
    assert len(repr(one)) < len(str(runs)) + 80


def test_runs_lists_damaged_runs_and_refuses_what_is_none(runs):
    (runs / "a" / "a_s1" / "config.yaml").write_text("nothing")
    assert [run.status for run in jaxrl.runs([runs])].count("damaged") == 1
    for wrong in (runs / "none", 3, [], [3]):
        with pytest.raises(UserError):
            jaxrl.runs(wrong)


def test_a_frame_has_a_row_for_each_epoch_and_the_settings_that_differ(runs):
    frame = jaxrl.runs(runs).frame()
    assert list(frame["run"]) == ["a_s0", "a_s0", "a_s1", "a_s1"]
    assert list(frame["seed"]) == [0, 0, 1, 1]
    assert list(frame["hidden"]) == ["8,8", "8,8", "8,9", "8,9"]
    assert list(frame["AverageEpRet"]) == [1, 2, 1, 3]
    assert "steps" not in frame.columns
    assert jaxrl.runs(runs / "b").frame().empty


def test_a_frame_without_pandas_is_refused_in_a_sentence(runs, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install pandas"):
        jaxrl.runs(runs).frame()


def test_reading_runs_from_python_does_not_import_jax(runs):
    code = f"""
import sys, jaxrl
found = jaxrl.runs({str(runs)!r})
jaxrl.plot(found)
jaxrl.report({str(runs)!r}, {str(runs / "a.html")!r})
import jaxrl.runs.reading
assert len(jaxrl.runs({str(runs)!r})) == 3
assert "jax" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_notebook_shows_the_figure_of_plot(runs):
    picture = jaxrl.plot(runs)._repr_png_()
    assert picture.startswith(b"\x89PNG")


def test_plot_returns_a_figure_and_writes_it_if_asked(runs, capsys):
    figure = jaxrl.plot(runs, y=["Performance", "TotalEnvInteracts"], smooth=2)
    assert len(figure.axes) == 2
    assert "b_s0" in capsys.readouterr().err
    for path in (runs / "a.png", str(runs / "b.svg")):
        assert jaxrl.plot(jaxrl.runs(runs)[:2], count=True, output=path).axes
    assert (runs / "a.png").stat().st_size > 1000
    assert "<svg" in (runs / "b.svg").read_text()
    run = types.SimpleNamespace(directory=runs / "a" / "a_s0")  # as `train` returns it
    assert jaxrl.plot(run, legend="mine").axes


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"est": "maen"}, "est"),
        ({"band": None}, "band"),
        ({"smooth": 0}, "smooth"),
        ({"y": 3}, "y is 3"),
        ({"y": []}, "y"),
        ({"y": "Los"}, "no column"),
        ({"grup": "algo"}, "group"),
        ({"suite": True, "count": True}, "count=True"),
        ({"select": "z*"}, "select="),
        ({"output": "a.txt"}, "png"),
        ({"output": 3}, "output"),
        ({"ref": "other"}, "spinup"),
    ],
)
def test_options_of_plot_are_refused_in_a_sentence(runs, options, word):
    with pytest.raises(UserError, match=word):
        jaxrl.plot(runs, **options)


@pytest.mark.parametrize("read", [jaxrl.load, jaxrl.load_model, jaxrl.resume])
def test_what_is_no_directory_of_a_run_is_refused_in_a_sentence(read):
    for odd in (3, None, ["runs"]):
        with pytest.raises(UserError, match="path"):
            read(odd)


def test_numbers_of_numpy_are_options_of_plot(runs):
    assert jaxrl.plot(runs, smooth=np.int64(2)).axes


def test_report_writes_a_page_and_returns_its_path(runs):
    assert jaxrl.report([runs / "a", runs / "b"], runs / "a.html") == runs / "a.html"
    assert "no luck" in (runs / "a.html").read_text()
    with pytest.raises(UserError, match="html"):
        jaxrl.report(runs, runs / "a.txt")


# Videos


def frames(path):
    if path.suffix == ".gif":
        return len(imageio.imread(path, index=...))
    return imageio_ffmpeg.count_frames_and_secs(str(path))[0]


def test_the_policy_of_a_run_is_recorded_in_its_environment(tmp_path):
    result = train(tmp_path, "ppo", "CartPole-v1", max_ep_len=20)
    policy, env = jaxrl.load(result.directory)
    path = jaxrl.record_video(policy, env, str(tmp_path / "a.mp4"), n_episodes=2)
    assert path == tmp_path / "a.mp4"
    assert frames(path) > 10
    env.reset()  # it is still open
    env.step(env.action_space.sample())


def test_any_function_is_recorded_in_any_environment(tmp_path):
    numbers = {"n_episodes": np.int64(1), "seed": np.int64(2)}
    go, path = lambda obs: 1, tmp_path / "a.gif"
    jaxrl.record_video(go, "CartPole-v1", path, **numbers)
    assert frames(path) > 3
    env = gymnasium.make("Pendulum-v1", render_mode="rgb_array", max_episode_steps=10)
    act = lambda obs: jnp.zeros(1)  # noqa: E731
    assert frames(jaxrl.record_video(act, env, tmp_path / "b.mp4")) == 10
    env.close()


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"policy": 3}, "policy"),
        ({"env": 3}, "environment"),
        ({"env": "Cartpole-v9"}, "Cartpole"),
        ({"video_path": "a.avi"}, "mp4"),
        ({"video_path": None}, "video_path"),
        ({"video_path": "/none/a.mp4"}, "directory"),
        ({"n_episodes": 0}, "n_episodes"),
        ({"seed": "x"}, "seed"),
        ({"env": "own_envs:Count-v0"}, "draw"),
    ],
)
def test_what_cannot_be_recorded_is_refused_in_a_sentence(tmp_path, changed, word):
    given = {"policy": lambda obs: 0, "env": "CartPole-v1"}
    given |= {"video_path": tmp_path / "a.mp4"} | changed
    with pytest.raises(UserError, match=word):
        jaxrl.record_video(**given)
    assert not list(tmp_path.iterdir())


def test_an_environment_that_cannot_be_made_again_is_refused(tmp_path):
    class Own(gymnasium.Wrapper):
        """Not one that gymnasium can make from its spec."""

    env = Own(gymnasium.make("CartPole-v1"))
    with pytest.raises(UserError, match="render_mode='rgb_array'"):
        jaxrl.record_video(lambda obs: 0, env, tmp_path / "a.gif")
    drawn = Own(gymnasium.make("CartPole-v1", render_mode="rgb_array"))
    assert jaxrl.record_video(lambda obs: 0, drawn, tmp_path / "a.gif").exists()
    env.close()
    drawn.close()


def test_an_environment_without_pictures_is_refused(tmp_path):
    class Dark(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_):
            return 0, {}

        def step(self, action):
            return 0, 0.0, True, False, {}

    with pytest.raises(UserError, match="rgb_array"):
        jaxrl.record_video(lambda obs: 0, Dark(), tmp_path / "a.mp4")
    assert not list(tmp_path.iterdir())
