"""What the pages take from the rest of the repository.

`{file}` is a path that must exist; `{step} PATH NAME` shows a function of such a file
beside the pseudo-code in its content. Notebooks in examples/ are copied next to the
pages, because Sphinx reads only its own directory. The front page leaves out those of
OPTIONAL that do not exist.
"""

import shutil
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

ROOT = Path(__file__).resolve().parents[2]
OPTIONAL = ("exercises", "notebooks/index")
INDEX = """\
# Notebooks

Each is a file in `examples/`, shown with its outputs.

```{toctree}
:maxdepth: 1

%s
```
"""

STEP = """\
:::::{{container}} beside
::::{{container}} pseudo
{pseudo_code}
::::
```{{literalinclude}} /../{path}
:pyobject: {name}
```
:::::
"""


class Step(SphinxDirective):
    """A function of the code with its pseudo-code."""

    required_arguments = 2
    has_content = True

    def run(self) -> list[nodes.Node]:
        path, name = self.arguments
        text = "\n".join(self.content)
        return self.parse_text_to_nodes(
            STEP.format(pseudo_code=text, path=path, name=name)
        )


class File(SphinxRole):
    """A path in the repository."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        if not (ROOT / self.text).exists():
            message = f"there is no file {self.text!r}"
            return [], [self.inliner.reporter.error(message, line=self.lineno)]
        return [nodes.literal(self.text, self.text, classes=["file"])], []


def copy_notebooks(app: Sphinx, *_: object) -> None:
    """Fills docs/notebooks, which git ignores."""
    target = Path(app.srcdir) / "notebooks"
    shutil.rmtree(target, ignore_errors=True)
    found = sorted((ROOT / "examples").glob("*.ipynb"))
    if not found:
        return
    target.mkdir()
    for notebook in found:
        shutil.copy2(notebook, target)
    names = "\n".join(notebook.stem for notebook in found)
    (target / "index.md").write_text(INDEX % names)


def leave_out_missing(app: Sphinx, page: str, source: list[str]) -> None:
    for name in OPTIONAL if page == "index" else ():
        if not (Path(app.srcdir) / f"{name}.md").exists():
            source[0] = source[0].replace(f"\n{name}\n", "\n")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("step", Step)
    app.add_role("file", File(), override=True)
    app.connect("config-inited", copy_notebooks)
    app.connect("source-read", leave_out_missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
