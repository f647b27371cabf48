"""What `jaxrl ls` and `jaxrl doctor` print on a terminal, and what in a pipe."""

import os
import pty
import re
import subprocess
import sys

import pytest
from fake_runs import log, write_run

from jaxrl.cli import doctor
from jaxrl.cli.main import main
from jaxrl.logging.console import folded, printable

STYLE = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs, one with a name that tries to style the terminal."""
    monkeypatch.chdir(tmp_path)
    for name in "ppo_Hopper-v4", "[red]evil[/red]\x1b[2Jx":
        columns = log([500_000, 1_000_000], [1234.5, 2345.6])
        write_run(tmp_path / "runs", name, 0, columns, steps=3_000_000)


def listed(columns, **environment):
    """The lines of `jaxrl ls` on a terminal so wide."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "jaxrl", "ls"]
    environment |= {"COLUMNS": str(columns), "TERM": "xterm-256color"}
    subprocess.run(
        words, stdin=theirs, stdout=theirs, env=os.environ | environment, check=True
    )
    os.close(theirs)
    text = b""
    try:
        while part := os.read(ours, 65536):
            text += part
    except OSError:  # the end, on Linux
        pass
    os.close(ours)
    return text.decode().splitlines()


@pytest.mark.parametrize("columns", [60, 120])
def test_a_table_fits_the_terminal_and_shows_names_as_text(runs, columns):
    lines = [STYLE.sub("", line) for line in listed(columns)]
    assert max(map(len, lines)) <= columns
    assert not [line for line in lines if "\x1b" in line]
    rows = [line.split() for line in lines]
    assert sum("1000000/3000000" in row for row in rows) == 2
    assert any("2345.6" in row for row in rows)
    # A path may take several lines, broken at its parts; none of it is lost.
    state = lines[0].index("state")
    cells = [line[:state].rstrip() for line in lines[1:] if "not shown" not in line]
    assert "runs/ppo_Hopper-v4/ppo_Hopper-v4_s0" in "".join(cells)
    assert "[red]evil[/red]" in "".join(cells)
    assert all(cell.endswith(("/", "_", "-", "_s0")) for cell in cells)
    for head in ("best", "age", "size"):  # in the head, or named as not shown
        assert any(head in line for line in lines)


def test_no_color_is_respected(runs):
    colour = re.compile(r"\x1b\[[\d;]*3[0-7]")
    assert colour.search("\n".join(listed(120, NO_COLOR="")))
    for columns in 60, 120:  # with and without a line on columns that are not shown
        assert "\x1b" not in "\n".join(listed(columns, NO_COLOR="1"))


def test_a_pipe_gets_whole_plain_lines(runs):
    environment = os.environ | {"COLUMNS": "40", "FORCE_COLOR": "1"}
    words = [sys.executable, "-m", "jaxrl", "ls"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    head, *rows = done.stdout.splitlines()
    heads = ["run", "state", "steps", "last", "last5", "best", "age", "size"]
    assert head.split() == heads
    assert "\x1b" not in done.stdout
    assert len(rows) == 2
    path, state = rows[1].split()[:2]
    assert (path, state) == ("runs/ppo_Hopper-v4/ppo_Hopper-v4_s0", "interrupted")
    assert max(map(len, rows)) > 60


def test_the_doctor_shows_each_check_on_a_terminal_of_60_columns(
    tmp_path, monkeypatch, capsys
):
    def broken():
        raise RuntimeError("no [red]learning " + "here " * 20)

    for name in ("versions", "devices", "mpi", "rendering", "self_test"):
        monkeypatch.setattr(doctor, name, broken)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    assert main(["doctor", "--out", str(tmp_path)]) == 1
    printed = re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\r", "", capsys.readouterr().out)
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 60
    assert sum(line.startswith("NO") for line in lines) == 5
    assert "[red]learning" in printed


def test_control_characters_are_replaced():
    assert printable("a\x1b[31m\nb\x07é漢") == "a�[31m�b�é漢"


def test_text_is_folded_at_spaces_and_parts_of_paths_before_it_is_cut():
    path = "runs/ppo_Hopper-v4/ppo_Hopper-v4_s0"
    assert folded(path, 60) == [path]
    assert folded(path, 20) == ["runs/ppo_Hopper-v4/", "ppo_Hopper-v4_s0"]
    assert folded(path, 12) == ["runs/ppo_", "Hopper-v4/", "ppo_Hopper-", "v4_s0"]
    assert folded("it failed: abcdefgh", 6) == ["it", "failed", ":", "abcdef", "gh"]
