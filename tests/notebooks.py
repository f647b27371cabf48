"""Runs the notebooks in examples/, as a test with a small budget or to store outputs.

    python tests/notebooks.py examples/0*.ipynb

runs them with their full budget and stores what they print and draw. A notebook's cell
with the tag `parameters` has its small budget as the metadata `small`.
"""

import os
import sys
import tempfile
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def executed(path: Path, where: Path, small: bool = False) -> nbformat.NotebookNode:
    """The notebook with its outputs, run in the directory `where`."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if small and "small" in cell.metadata:
            cell.source = cell.metadata["small"]
    client = nbclient.NotebookClient(
        notebook,
        timeout=1200,
        record_timing=False,
        resources={"metadata": {"path": str(where)}},
    )
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    return notebook


def store(path: Path) -> None:
    """Replaces the outputs in the file."""
    with tempfile.TemporaryDirectory() as where:
        notebook = executed(path, Path(where))
    notebook.metadata["language_info"] = {"name": "python"}
    path.write_text(nbformat.writes(notebook, indent=1) + "\n")
    print(f"{path}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        store(Path(name))
