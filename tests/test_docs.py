"""The pages' code runs, and their commands are those that jaxrl understands."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jaxrl
from jaxrl.cli import habits, options
from jaxrl.cli.main import COMMANDS

pytestmark = pytest.mark.examples

ROOT = Path(jaxrl.__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if not {"_build", "notebooks"} & {*page.relative_to(DOCS).parts}
)


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)


def commands(page):
    """The words after `jaxrl` in each line of a page's shell blocks."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    return [each[each.index("jaxrl") + 1 :] for each in words if "jaxrl" in each]


def run(*command, where):
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=where,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_name(pages):
    names = [str(page.relative_to(ROOT)) for page in pages]
    return pytest.mark.parametrize("page", pages, ids=names)


@by_name([page for page in PAGES if blocks(page, "python")])
def test_the_code_of_a_page_runs(page, tmp_path):
    run("-c", "\n".join(blocks(page, "python")), where=tmp_path)


@by_name([README, *(page for page in PAGES if commands(page))])
def test_every_flag_of_a_pages_commands_exists(page, tmp_path, monkeypatch):
    shutil.copy(ROOT / "jaxrl" / "algos" / "sac.py", tmp_path / "my_sac.py")
    monkeypatch.chdir(tmp_path)
    for command, *words in commands(page):
        assert command in COMMANDS
        words = [word for word in words if word != "--help"]  # argparse would exit
        words = habits.translated(command, words)
        _, unknown = options.parser(command, words).parse_some(words)
        assert not unknown, words


def test_the_commands_of_getting_started_run_in_their_order(tmp_path):
    found = commands(DOCS / "getting-started.md")
    assert len(found) >= 8
    for words in found:
        run("-m", "jaxrl", *words, where=tmp_path)
    assert {"curves.png", "agent.mp4", "rates.png", "report.html"} <= {
        file.name for file in tmp_path.iterdir()
    }


def test_the_grid_file_of_the_guide_has_no_mistake(tmp_path):
    (sweep,) = (x for x in blocks(DOCS / "guides/grids.md", "yaml") if "zip:" in x)
    (tmp_path / "sweep.yaml").write_text(sweep)
    printed = run("-m", "jaxrl", "grid", "sweep.yaml", "--dry-run", where=tmp_path)
    assert "46 variants" in printed


def test_the_settings_file_of_the_guide_has_no_mistake(tmp_path):
    (settings,) = blocks(DOCS / "guides/training.md", "yaml")
    (tmp_path / "settings.yaml").write_text(settings)
    words = ("train", "--config", "settings.yaml", "--steps", "2048")
    run("-m", "jaxrl", *words, where=tmp_path)
    assert (tmp_path / "runs/try/try_s3/progress.csv").exists()
