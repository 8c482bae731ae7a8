"""A picture of boxes, arrows and words as SVG, readable in light and in dark. Words are outlines, so they look the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

Point = tuple[float, float]
SIZE, SMALL = 16.0, 14.0
LIT: tuple[Point, ...] = ((0, 1), (1, 1), (2, 3), (3, 2))
"""Detectors of the small lattice, four by four, that a shot has lit."""

_STYLE = """
.paper{fill:#fff}.ink{fill:#1b1f24}.soft{fill:#565e69}.model{fill:#0072b2}.classical{fill:#5b6470}.checked{fill:#007a58}.unsure{fill:#b84f00}
.line{fill:none;stroke:#1b1f24;stroke-width:1.6}.thin{fill:none;stroke:#8a929d;stroke-width:1.2}.grid{fill:none;stroke:#c3c9d1;stroke-width:1.2}
.box{fill:#f6f7f9;stroke:#8a929d;stroke-width:1.4}.box.model{fill:#e3f1fa;stroke:#0072b2}.box.classical{fill:#eceef1;stroke:#5b6470}
.box.checked{fill:#e0f3ec;stroke:#007a58}.box.unsure{fill:#fbeadd;stroke:#b84f00}.dashed{stroke-dasharray:6 4}
path.edge{fill:none;stroke-linecap:round}.edge.model{stroke:#0072b2}.edge.unsure{stroke:#b84f00}.edge.classical{stroke:#5b6470}.edge.checked{stroke:#007a58}
@media (prefers-color-scheme:dark){
.paper{fill:#14171b}.ink{fill:#e8eaed}.soft{fill:#b0b7c1}.model{fill:#7cc4f5}.classical{fill:#b0b7c1}.checked{fill:#3cc99a}.unsure{fill:#f29c52}
.line{stroke:#e8eaed}.thin{stroke:#7d8691}.grid{stroke:#3f4752}
.box{fill:#1d2127;stroke:#7d8691}.box.model{fill:#10293a;stroke:#56b4e9}.box.classical{fill:#262b32;stroke:#b0b7c1}
.box.checked{fill:#0f2c24;stroke:#3cc99a}.box.unsure{fill:#37230f;stroke:#f29c52}
.edge.model{stroke:#56b4e9}.edge.unsure{stroke:#f29c52}.edge.classical{stroke:#b0b7c1}.edge.checked{stroke:#3cc99a}}
"""
"""model: the predecoder. classical: backends. checked: the verifier's. unsure: shots that are open, and what is not so."""


@cache
def _font() -> tuple[dict[int, str], dict[str, tuple[str, float]], float]:
    """DejaVu Sans, which comes with matplotlib: names of characters; outline and advance of each glyph; units per em."""
    import matplotlib
    from fontTools.pens.svgPathPen import SVGPathPen
    from fontTools.ttLib import TTFont

    font = TTFont(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
    glyphs, names = font.getGlyphSet(), font.getBestCmap()
    out = {}
    for code in range(32, 127):
        pen = SVGPathPen(glyphs)
        glyphs[names[code]].draw(pen)
        out[names[code]] = (str(pen.getCommands()), float(glyphs[names[code]].width))
    return names, out, float(font["head"].unitsPerEm)


def width_of(words: str, size: float = SIZE) -> float:
    names, glyphs, em = _font()
    return sum(glyphs[names[ord(each)]][1] for each in words) * size / em


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


class Picture:
    """Sizes are those of the picture's own units; words of size 16 can be read on a phone when it is 640 wide."""

    def __init__(self, width: float, height: float, says: str) -> None:
        self.width, self.height, self.says = width, height, says
        self._parts: list[str] = []
        self._letters: set[str] = set()

    def text(
        self, x: float, y: float, words: str, *, size: float = SIZE, look: str = "ink", anchor: str = "middle"
    ) -> None:
        """y: of the base line."""
        long = width_of(words, size)
        x -= {"start": 0.0, "middle": long / 2, "end": long}[anchor]
        if x < 0 or x + long > self.width:
            raise ValueError(f"{words!r} leaves the picture {self.says!r}")
        names, glyphs, em = _font()
        at, uses = 0.0, []
        for each in words:
            outline, advance = glyphs[names[ord(each)]]
            if outline:
                self._letters.add(each)
                uses.append(f'<use href="#c{ord(each)}" x="{_number(at)}"/>')
            at += advance
        scale = f"{size / em:.6f}"
        self._parts.append(
            f'<g class="{look}" transform="translate({_number(x)} {_number(y)}) scale({scale} -{scale})">{"".join(uses)}</g>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *lines: str,
        look: str = "",
        small: Sequence[str] = (),
    ) -> None:
        """lines: its words, in the middle; small: more of them below, in small letters."""
        self._parts.append(
            f'<rect class="{f"box {look}".strip()}" x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}" rx="7"/>'
        )
        sized = [(line, SIZE) for line in lines] + [(line, SMALL) for line in small]
        base = y + height / 2 - sum(size * 1.3 for _, size in sized) / 2
        for line, size in sized:
            if width_of(line, size) > width - 8:
                raise ValueError(f"{line!r} is wider than its box in {self.says!r}")
            self.text(
                x + width / 2, base + size * 1.0, line, size=size, look="ink" if size == SIZE else "soft"
            )
            base += size * 1.3

    def line(self, *points: Point, look: str = "line", width: float | None = None) -> None:
        wide = "" if width is None else f' style="stroke-width:{_number(width)}"'
        self._parts.append(f'<path class="{look}" d="{_path(points)}"{wide}/>')

    def arrow(self, *points: Point, look: str = "line") -> None:
        """Along the points; its head is at the last one."""
        (x0, y0), (x1, y1) = points[-2:]
        angle = math.atan2(y1 - y0, x1 - x0)
        back = (x1 - 8 * math.cos(angle), y1 - 8 * math.sin(angle))
        self.line(*points[:-1], back, look=look)
        wings = [
            (x1 - 11 * math.cos(angle + turn), y1 - 11 * math.sin(angle + turn)) for turn in (0.42, -0.42)
        ]
        self.area((x1, y1), *wings, look="ink" if look == "line" else "soft")

    def area(self, *points: Point, look: str, opacity: float = 1) -> None:
        seen = "" if opacity == 1 else f' fill-opacity="{opacity}"'
        self._parts.append(f'<path class="{look}" d="{_path(points)}Z"{seen}/>')

    def dot(self, x: float, y: float, radius: float, look: str) -> None:
        self._parts.append(
            f'<circle class="{look}" cx="{_number(x)}" cy="{_number(y)}" r="{_number(radius)}"/>'
        )

    def svg(self) -> str:
        names, glyphs, _ = _font()
        letters = "".join(
            f'<path id="c{ord(each)}" d="{glyphs[names[ord(each)]][0]}"/>' for each in sorted(self._letters)
        )
        size = f'viewBox="0 0 {_number(self.width)} {_number(self.height)}" width="{_number(self.width)}" height="{_number(self.height)}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(self.says)}>',
                f"<title>{escape(self.says)}</title><style>{_STYLE}</style><defs>{letters}</defs>",
                f'<rect class="paper" width="{_number(self.width)}" height="{_number(self.height)}" rx="10"/>',
                *self._parts,
                "</svg>\n",
            ]
        )


def lattice(
    on: Picture,
    x: float,
    y: float,
    caption: str,
    *,
    lit: Sequence[Point] = LIT,
    edges: Sequence[tuple[Point, Point, float, str]] = (),
) -> None:
    """84 wide. edges: ends, stroke width and look of those that stand out."""
    step = 28.0

    def at(place: Point) -> Point:
        return x + step * place[0], y + step * place[1]

    for n in range(4):
        on.line(at((0, n)), at((3, n)), look="grid")
        on.line(at((n, 0)), at((n, 3)), look="grid")
    for one, other, width, look in edges:
        on.line(at(one), at(other), look=f"edge {look}", width=width)
    for i in range(4):
        for j in range(4):
            on.dot(*at((i, j)), 6 if (i, j) in lit else 3, "unsure" if (i, j) in lit else "soft")
    on.text(x + 42, y + 112, caption, size=SMALL, look="soft")
