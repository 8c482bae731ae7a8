"""`make pictures`: the pictures of docs/concepts.md, into docs/figures/concepts."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path

from decoding_pictures import both_halves, cascade, confidence, pipeline, predecoder
from drawing import Picture
from search_pictures import front, paired_shots, round_of_the_search, sealed_verification, sets_of_shots

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "figures" / "concepts"

HEIGHTS: dict[Callable[[Picture], None], float] = {
    pipeline: 326, predecoder: 422, round_of_the_search: 334, paired_shots: 314, sets_of_shots: 330, front: 344, sealed_verification: 324,
    cascade: 344, both_halves: 300, confidence: 342,
}  # fmt: skip


def drawn() -> dict[str, str]:
    """File name -> SVG."""
    out = {}
    for draw, height in HEIGHTS.items():
        picture = Picture(640, height, inspect.getdoc(draw) or "")
        draw(picture)
        out[f"{draw.__name__}.svg"] = picture.svg()
    return out


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, svg in drawn().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
    sys.stdout.write(f"{len(HEIGHTS)} pictures in {FOLDER}\n")


if __name__ == "__main__":
    main()
