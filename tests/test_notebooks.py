"""The notebooks run with a small budget, and have stored outputs."""

import json
import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
from notebooks import NOTEBOOKS, executed  # noqa: E402

pytestmark = pytest.mark.examples

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem[:2])


def outputs(notebook):
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [output for cell in cells for output in cell["outputs"]]


def test_there_are_seven_notebooks_in_order():
    assert [path.name[:3] for path in NOTEBOOKS] == [f"0{i}_" for i in range(1, 8)]


@each
def test_a_notebook_runs_with_a_small_budget(path, tmp_path):
    made = outputs(executed(path, tmp_path, small=True))
    kinds = {kind for output in made for kind in output.get("data", {})}
    assert "image/png" in kinds


@each
def test_a_notebook_has_a_small_budget_and_stored_outputs(path):
    notebook = json.loads(path.read_text())
    small = [c["metadata"]["small"] for c in notebook["cells"] if c["metadata"]]
    assert len(small) == 1
    stored = outputs(notebook)
    kinds = [output["output_type"] for output in stored]
    assert "error" not in kinds
    assert any("image/png" in output.get("data", {}) for output in stored)
    counts = [c["execution_count"] for c in notebook["cells"] if "outputs" in c]
    assert counts == list(range(1, len(counts) + 1))  # run once, from the top


@each
def test_a_notebook_is_small_and_names_no_directory_of_its_machine(path):
    text = path.read_text()
    assert len(text) < 200_000
    assert str(Path.home()) not in text
    assert not re.search(r"/(tmp|home|root)/", text)


@each
def test_links_between_notebooks_lead_somewhere(path):
    links = re.findall(r"\]\(([\w./-]+)\)", path.read_text())
    assert not [link for link in links if not (path.parent / link).exists()]
