"""The pictures of docs/concepts.md: they are those that `make pictures` draws, and each is shown with words for who cannot see it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from concept_pictures import FOLDER, drawn
from drawing import Picture, width_of

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts.md"


@pytest.fixture(scope="module")
def pictures() -> dict[str, str]:
    return drawn()


def test_the_pictures_are_those_that_the_code_draws(pictures: dict[str, str]) -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert kept == pictures, "make pictures"


def test_every_section_has_its_picture_with_words(pictures: dict[str, str]) -> None:
    sections = CONCEPTS.read_text(encoding="utf-8").split("\n## ")[1:]
    shown = [re.findall(r"!\[(.{40,})\]\(figures/concepts/([\w.]+)\)", section) for section in sections]
    assert [len(found) for found in shown] == [1] * len(sections)
    assert {found[0][1] for found in shown} == set(pictures)


def test_a_picture_is_well_formed_and_needs_nothing_else(pictures: dict[str, str]) -> None:
    for svg in pictures.values():
        root = ET.fromstring(svg)
        assert root.get("aria-label")
        ids = {f"#{part.get('id')}" for part in root.iter() if part.get("id")}
        used = {href for part in root.iter() if (href := part.get("href")) is not None}
        assert used == ids  # letters; no file and no address beyond the picture


def test_words_that_do_not_fit_are_refused() -> None:
    picture = Picture(100, 50, "small")
    with pytest.raises(ValueError, match="wider than its box"):
        picture.box(0, 0, width_of("predecoder") + 7, 20, "predecoder")
    with pytest.raises(ValueError, match="leaves the picture"):
        picture.text(90, 20, "predecoder")
