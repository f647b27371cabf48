"""A run that records videos is the same run as without, and has its videos."""

import io
import os
import signal
import threading
import time

import pytest
from PIL import Image
from small_runs import (
    Killed,
    assert_same,
    at_step,
    events,
    jaxrl_command,
    kill,
    signalled,
    small,
    train,
)

import jaxrl
from jaxrl.cli.main import main
from jaxrl.runs.checkpoint_writer import CheckpointWriter
from jaxrl.training.callbacks import RecordVideo

RECORDED = {"epochs": 4, "video_every": 2, "max_ep_len": 12}
NAMES = ["step-000000128.mp4", "step-000000256.mp4"]


def videos(run):
    return {video.name: video.read_bytes() for video in (run / "videos").iterdir()}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return train(tmp_path_factory.mktemp("videos"), "ppo", "CartPole-v1", **RECORDED)


def test_videos_change_nothing_in_the_run(recorded, tmp_path):
    without = train(tmp_path, "ppo", "CartPole-v1", **RECORDED | {"video_every": 0})
    assert_same(recorded, without)
    assert not (without.directory / "videos").exists()
    assert sorted(videos(recorded.directory)) == NAMES
    # Most of the time between these rows was that of a video, and is not counted.
    _, before, after, _ = recorded.history
    assert 64 / after["StepsPerSecond"] < (after["Time"] - before["Time"]) / 2


def test_a_video_of_a_run_is_that_of_jaxrl_video(recorded, tmp_path):
    output = tmp_path / "agent.mp4"
    words = ["video", recorded.directory, "--model", 128, "-o", output]
    assert jaxrl_command(*words).returncode == 0
    assert output.read_bytes() == videos(recorded.directory)[NAMES[0]]


def test_tensorboard_shows_the_videos(recorded):
    shown = {
        event.step: value.image
        for event in events(recorded.directory)
        for value in event.summary.value
        if value.tag == "video"
    }
    assert list(shown) == [128, 256]
    for image in shown.values():
        with Image.open(io.BytesIO(image.encoded_image_string)) as gif:
            assert gif.format == "GIF"
            # 600 x 440, made small
            assert gif.size == (image.width, image.height) == (240, 176)
            assert gif.n_frames > 1


def test_weights_and_biases_keeps_the_videos(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    settings = small("ppo", out=tmp_path, exp_name="x", **RECORDED)
    words = [f"--{name}={value}" for name, value in settings.items()]
    done = jaxrl_command("train", "ppo", "--env", "CartPole-v1", "--wandb", *words)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "x" / "x_s0"
    media = run.glob("wandb/offline-run-*/files/media/**/*.mp4")
    assert {video.read_bytes() for video in media} == set(videos(run).values())


# Interrupted and resumed


def terminate_during_first_video(out):
    """Sends SIGTERM as soon as the first video is begun."""
    while not list(out.glob("*/*/videos")):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_video_cut_short_by_a_signal_is_recorded_after_resume(recorded, tmp_path):
    watcher = threading.Thread(
        target=terminate_during_first_video, args=[tmp_path], daemon=True
    )
    watcher.start()
    left = train(tmp_path, "ppo", "CartPole-v1", **RECORDED)
    assert left.stopped_by == signal.SIGTERM
    assert len(left.history) == 2
    assert videos(left.directory) == {}
    resumed = jaxrl.resume(left.directory, screen=False)
    assert_same(resumed, recorded)
    assert videos(left.directory) == videos(recorded.directory)


def test_a_killed_run_ends_with_the_same_videos(recorded, tmp_path, monkeypatch):
    at_step(monkeypatch, 70, signalled)
    left = train(tmp_path, "ppo", "CartPole-v1", **RECORDED)
    at_step(monkeypatch, 150, kill)
    monkeypatch.setattr(CheckpointWriter, "affordable", lambda *_: False)
    with pytest.raises(Killed):
        jaxrl.resume(left.directory, screen=False)
    assert sorted(videos(left.directory)) == NAMES[:1]
    (left.directory / "videos" / NAMES[0]).write_bytes(b"of steps that are repeated")
    jaxrl.resume(left.directory, screen=False)
    assert videos(left.directory) == videos(recorded.directory)


# What cannot be recorded


def train_undrawable(out):
    settings = small("ppo", out=out, exp_name="x", video_every=1)
    words = [f"--{name}={value}" for name, value in settings.items()]
    return main(["train", "ppo", "--env", "own_envs:Count-v0", *words])


def test_what_cannot_be_drawn_is_refused_before_the_run_starts(tmp_path, capsys):
    assert train_undrawable(tmp_path / "runs") == 2
    error = capsys.readouterr().err
    assert "--video_every" in error
    assert "cannot be drawn" in error
    assert not list(tmp_path.iterdir())


def test_a_broken_package_is_refused_before_the_run_starts(tmp_path, monkeypatch):
    package = tmp_path / "imageio_ffmpeg"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('ffmpeg is broken')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"video_every.*ffmpeg is broken"):
        train(tmp_path / "runs", "ppo", "CartPole-v1", **RECORDED)
    assert list(tmp_path.iterdir()) == [package]


def test_a_video_that_fails_is_noted_and_the_run_continues(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(RecordVideo, "check", lambda callback: None)
    assert train_undrawable(tmp_path) == 0
    printed = capsys.readouterr().out
    (note,) = [line for line in printed.splitlines() if "step 64" in line]
    assert "cannot be drawn" in note
    assert "128/128 steps" in printed
