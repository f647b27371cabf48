"""Sphinx: `nox -s docs` builds the pages offline, with warnings as errors."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "benchmarks"), str(ROOT)]

import jaxrl  # noqa: E402

project = "jaxrl"
copyright = "the authors of jaxrl, MIT license"
version = release = jaxrl.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "algorithm_tables",
    "command_line",
    "docstrings",
    "mathml",
    "repository",
]
exclude_patterns = ["_build", "_ext"]
smartquotes = False  # it would join the dashes of flags

# Markdown
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are committed with their outputs

# Python
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"undoc-members": False}
nitpicky = True
# Only jaxrl's own names are documented here, and not all of its types of arguments.
nitpick_ignore_regex = [
    ("py:.*", r"(?!jaxrl\.).*"),
    ("py:class", r"jaxrl\.(sampling\.T|types\.Tree|settings\.Range)"),
    ("py:class", r"jaxrl\.maths\.nets\.(Module|EncoderSettings|NetworkSettings)"),
]

# Pages: nothing is loaded from the network.
html_theme = "furo"
html_title = f"jaxrl {release}"
html_static_path = ["_static"]
html_css_files = ["jaxrl.css"]
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
copybutton_prompt_text = "$ "
