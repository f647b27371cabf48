"""Reading what a stranger may have put instead of a file."""

import os

import pytest

from jaxrl import files


def test_a_regular_file_is_read(tmp_path):
    (tmp_path / "a").write_text("hello")
    assert files.read_text(tmp_path / "a", inside=tmp_path) == "hello"


def test_a_pipe_does_not_make_the_reader_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(files.Unreadable, match="regular"):
        files.read_bytes(tmp_path / "pipe")


def test_a_device_is_not_read():
    with pytest.raises(files.Unreadable, match="regular"):
        files.read_bytes(files.Path("/dev/zero"))


def test_a_directory_is_not_read(tmp_path):
    with pytest.raises(OSError):
        files.read_bytes(tmp_path)


def test_a_file_above_the_limit_is_not_read(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(10**12)  # sparse: takes no room
    with pytest.raises(files.Unreadable, match="bytes"):
        files.read_bytes(tmp_path / "large")


def test_a_link_out_of_the_run_is_not_followed(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "secret").write_text("key")
    (run / "status.json").symlink_to(tmp_path / "secret")
    (run / "models").symlink_to(tmp_path)
    for name in "status.json", "models/secret":
        with pytest.raises(files.Unreadable, match="link"):
            files.read_bytes(run / name, inside=run)


def test_a_link_inside_the_run_and_a_linked_run_are_followed(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "a").write_text("here")
    (run / "b").symlink_to("a")
    (tmp_path / "linked").symlink_to(run)
    linked = tmp_path / "linked"
    assert files.read_text(linked / "b", inside=linked) == "here"
