"""Pages as HTML: the page's own style and scripts, and the data beside them as JSON that cannot end its element.

The content security policy of a page allows its own script and style by their hashes and nothing else: were a text of a run ever
taken for markup, it could still do nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from html import escape
from importlib.resources import files
from typing import Any

STYLE = ("style.css",)
SHARED = ("dom.js", "charts.js", "figures.js", "graph.js", "table.js", "rounds.js")
REPORT = (*SHARED, "report.js")
LIST = (*SHARED, "list.js")
COMPARISON = (*SHARED, "compare.js")


def page(title: str, data: Any, scripts: tuple[str, ...], *, live: bool = False) -> str:
    """One HTML file. live: it may ask the server that it came from, and nobody else."""
    style, script = _source(STYLE), _source(scripts)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; base-uri 'none'; "
        f"form-action 'none'; connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}"
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page draws its figures with a script of its own, which this browser does not run.</noscript>
<script type="application/json" id="data">{embedded(data)}</script>
<script>{script}</script>
</body>
</html>
"""


def embedded(data: Any) -> str:
    """JSON inside a script element: nothing in it can end the element, whatever the data say."""
    text = json.dumps(finite(data), allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def finite(value: Any) -> Any:
    """The value with None for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(below) for key, below in value.items()}
    return [finite(below) for below in value] if isinstance(value, list | tuple) else value


def _source(names: tuple[str, ...]) -> str:
    folder = files(__package__).joinpath("static")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
