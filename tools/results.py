"""Writes docs/results.md: what was verified, from the reports of the zoo alone. `python tools/results.py [FILE]`; a test compares the two."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from autoqec.finds.zoo import ZooEntry, zoo_entries
from autoqec.report.card import cost_lines, figures

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
_HEAD = """# Results

Every predecoder of the [zoo](zoo.md) that is verified, beside every classical decoder of its environment, on the same shots. All figures are those of the verifier's
reports ([verification.md](verification.md)): `python tools/results.py` writes this page from them, and a test compares the two. `autoqec zoo verify` measures them again.
In brackets: 95% intervals. A slow classical decoder has fewer shots, and is then compared on those alone. Times are of one core of the machine that verified.
"""
_FOOT = """## What is not here yet

- Other environments. What was found there is in [predecoders.md](predecoders.md), each figure with its shots and whether it was verified; so is what did not help, and how far
  from the best decoder there can be a find is.
- Tesseract on the same shots (on others it is in [predecoders.md](predecoders.md#how-far-from-the-best-decoder)), and distance 9.
"""


def page(entries: Sequence[ZooEntry]) -> str:
    parts = [_HEAD]
    for entry in sorted(entries, key=lambda entry: entry.name):
        report = entry.report
        if report is None or not entry.is_verified:
            continue
        about = [f"## {entry.name}", "", *figures(report), "", *cost_lines(report), "", "## Shots", ""]
        about.append(
            f"- Of the test: bundle `{report.paired_eval_bundle_id}`, {report.shots} shots at the reference p."
        )
        if report.estimate is not None:
            about.append(
                f"- Of the estimate: bundle `{report.estimate.bundle}`, {report.estimate.shots} shots."
            )
        heading, *rest = "\n".join(about).splitlines()
        parts.append("\n".join([heading, *(re.sub("^## ", "### ", line) for line in rest), ""]))
    return "\n".join([*parts, _FOOT])


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else PAGE).write_text(page(zoo_entries()))
