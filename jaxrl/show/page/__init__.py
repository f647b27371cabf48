"""The page of a report: hand-written HTML, CSS and JavaScript around its data."""

import base64
import hashlib
import html
import json
from pathlib import Path
from string import Template
from typing import Any

HERE = Path(__file__).parent
SCRIPTS = ("text.js", "data.js", "chart.js", "table.js", "parallel.js", "page.js")


def render(content: dict[str, Any]) -> str:
    """The whole page, which needs no network."""
    script = "\n".join((HERE / name).read_text() for name in SCRIPTS)
    digest = hashlib.sha256(script.encode()).digest()
    return Template((HERE / "page.html").read_text()).substitute(
        title=html.escape(str(content["title"])),
        style=(HERE / "style.css").read_text(),
        data=_script_safe_json(content),
        script=script,
        # A browser runs no other script, even if someone's run name is markup.
        digest=base64.b64encode(digest).decode(),
    )


def _script_safe_json(content: dict[str, Any]) -> str:
    """JSON that cannot close the script element around it."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
