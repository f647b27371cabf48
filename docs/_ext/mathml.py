"""Equations as MathML, which browsers draw without scripts or fonts."""

from docutils import nodes
from latex2mathml import converter
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)
THIN = '<mspace width="0.167em"/>'
# The converter takes these for letters, which have no space around them.
SPACED = {
    "<mi>log</mi>": f"{THIN}<mi>log</mi>{THIN}",
    "<mi>&#x0007E;</mi>": "<mo>&#x0223C;</mo>",
}


def mathml(node: nodes.math | nodes.math_block, display: str) -> str:
    made = converter.convert(node.astext(), display=display)
    if "\\" in made or "<mi>&</mi>" in made:  # what the converter does not know
        LOGGER.warning("cannot convert %s", node.astext(), location=node)
    for letters, operator in SPACED.items():
        made = made.replace(letters, operator)
    return made


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="equation">{mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
