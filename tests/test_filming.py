"""A run that is filmed is the run that is not, with films of it."""

import io
import os
import signal

import pytest
from PIL import Image
from test_resume import Killed, assert_same, at_step, kill
from test_train import events, jaxrl_command, small, train

import jaxrl
from jaxrl.cli.main import main
from jaxrl.runs import checkpoint
from jaxrl.training import filming

FILMED = {"epochs": 4, "video_every": 2, "max_ep_len": 12}
NAMES = ["step-000000128.mp4", "step-000000256.mp4"]


def films(run):
    return {film.name: film.read_bytes() for film in (run / "videos").iterdir()}


@pytest.fixture(scope="module")
def filmed(tmp_path_factory):
    return train(tmp_path_factory.mktemp("filmed"), "ppo", "CartPole-v1", **FILMED)


def test_films_are_made_and_change_nothing(filmed, tmp_path):
    unseen = train(tmp_path, "ppo", "CartPole-v1", **FILMED | {"video_every": 0})
    assert_same(filmed, unseen)
    assert not (unseen.directory / "videos").exists()
    assert sorted(films(filmed.directory)) == NAMES
    # Most of the time between these rows was that of a film, and is not counted.
    _, before, after, _ = filmed.history
    assert 64 / after["StepsPerSecond"] < (after["Time"] - before["Time"]) / 2


def test_a_film_is_that_of_jaxrl_video(filmed, tmp_path):
    output = tmp_path / "agent.mp4"
    words = ["video", filmed.directory, "--model", 128, "-o", output]
    assert jaxrl_command(*words).returncode == 0
    assert output.read_bytes() == films(filmed.directory)[NAMES[0]]


def test_tensorboard_shows_the_films(filmed):
    shown = {
        event.step: value.image
        for event in events(filmed.directory)
        for value in event.summary.value
        if value.tag == "film"
    }
    assert list(shown) == [128, 256]
    for image in shown.values():
        with Image.open(io.BytesIO(image.encoded_image_string)) as gif:
            assert gif.format == "GIF"
            # 600 x 440, made small
            assert gif.size == (image.width, image.height) == (240, 176)
            assert gif.n_frames > 1


def test_weights_and_biases_keeps_the_films(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    settings = small("ppo", out=tmp_path, exp_name="x", **FILMED)
    words = [f"--{name}={value}" for name, value in settings.items()]
    done = jaxrl_command("train", "ppo", "--env", "CartPole-v1", "--wandb", *words)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "x" / "x_s0"
    media = run.glob("wandb/offline-run-*/files/media/**/*.mp4")
    assert {film.read_bytes() for film in media} == set(films(run).values())


# Left and taken up again


def test_a_signal_hastens_a_film_which_is_made_again(filmed, tmp_path, monkeypatch):
    make = filming.film

    def signalled(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        monkeypatch.setattr(filming, "film", make)
        return make(*arguments)

    monkeypatch.setattr(filming, "film", signalled)
    left = train(tmp_path, "ppo", "CartPole-v1", **FILMED)
    assert left.stopped_by == signal.SIGTERM
    assert len(left.history) == 2
    assert films(left.directory) == {}
    resumed = jaxrl.resume(left.directory, screen=False)
    assert_same(resumed, filmed)
    assert films(left.directory) == films(filmed.directory)


def test_a_killed_run_ends_with_the_same_films(filmed, tmp_path, monkeypatch):
    at_step(monkeypatch, 70, lambda trainer: os.kill(os.getpid(), signal.SIGTERM))
    left = train(tmp_path, "ppo", "CartPole-v1", **FILMED)
    at_step(monkeypatch, 150, kill)
    monkeypatch.setattr(checkpoint.Store, "affordable", lambda *_: False)
    with pytest.raises(Killed):
        jaxrl.resume(left.directory, screen=False)
    assert sorted(films(left.directory)) == NAMES[:1]
    (left.directory / "videos" / NAMES[0]).write_bytes(b"of a past to be forgotten")
    jaxrl.resume(left.directory, screen=False)
    assert films(left.directory) == films(filmed.directory)


# What cannot be filmed


def filmed_count(out):
    settings = small("ppo", out=out, exp_name="x", video_every=1)
    words = [f"--{name}={value}" for name, value in settings.items()]
    return main(["train", "ppo", "--env", "own_envs:Count-v0", *words])


def test_what_cannot_be_drawn_is_refused_before_it_begins(tmp_path, capsys):
    assert filmed_count(tmp_path / "runs") == 2
    error = capsys.readouterr().err
    assert "--video_every cannot film here: the environment cannot be drawn" in error
    assert not list(tmp_path.iterdir())


def test_a_film_that_fails_later_is_told_and_the_run_goes_on(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(filming, "rehearse", lambda run: None)
    assert filmed_count(tmp_path) == 0
    printed = capsys.readouterr().out
    assert "note: no film of step 64: the environment cannot be drawn" in printed
    assert "epoch 2  128/128 steps" in printed
