"""Style sheets and scripts, taken into a page: one `<style>` and one `<script>`, with what the page may run or load."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

ASSETS = "beholder.reports.assets"

STYLES = ("beholder.css", "compare-view.css", "charts.css", "report.css")
SCRIPTS = ("dom.js", "theme.js", "compare-view.js", "verdict-view.js", "report.js")

_IMPORT = re.compile(r"^import [^;]*? from \"\./[\w-]+\.js\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\b)", re.MULTILINE)


@cache
def style_sheet() -> str:
    return "".join(_asset(name) for name in STYLES)


@cache
def script() -> str:
    """The modules as one, in an order in which each finds what it uses: their imports of each other go, and `export`
    before a declaration. Our modules use no other forms, and no name at their top twice."""
    return "".join(_EXPORT.sub("", _IMPORT.sub("", _asset(name))) for name in SCRIPTS)


def policy() -> str:
    """A content-security policy under which this very style sheet and script work, and pictures in the page; nothing
    else, and nothing from elsewhere."""
    return (
        f"default-src 'none'; img-src data: blob:; style-src '{_digest(style_sheet())}'; "
        f"script-src '{_digest(script())}'; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return files(ASSETS).joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
