"""Pages that people read: every one can be found, no link is dead, and paths in AGENTS.md exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "CONTRIBUTING.md", *DOCS]


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_the_readme_links_every_page(page: Path) -> None:
    assert f"(docs/{page.name})" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_link_is_dead(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_and_scripts_that_a_page_names_exist(page: Path) -> None:
    """`make test-pages` plays commands of blocks; these stand in sentences, and some take hours."""
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)[`\s]", text, re.MULTILINE)
    assert {first or second for first, second in named} <= set(targets)
    scripts = re.findall(r"`python ((?:benchmarks|examples|tools)/\w+\.py)", text)
    assert [script for script in scripts if not (ROOT / script).is_file()] == []


def test_paths_in_the_table_of_rooms_exist() -> None:
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    table = text[text.index("## Where does a new X go?") : text.index("## Rules")]
    paths = [path for path in re.findall(r"`([^`<]*/[^`<]*)`", table) if " " not in path]
    assert len(paths) > 20
    places = (ROOT, ROOT / "autoqec")
    assert [path for path in paths if not any((place / path).exists() for place in places)] == []


def test_every_package_has_its_row() -> None:
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in (ROOT / "autoqec").glob("*/__init__.py")}
    data = {"example_db", "knowledge", "zoo"}
    assert {name for name in packages - data if f"| `autoqec.{name}` |" not in text} == set()
