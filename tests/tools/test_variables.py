"""docs/variables.md lists every variable of AutoQEC that the code names, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from autoqec.agents.prompts import Role

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "variables.md").read_text(encoding="utf-8")
_NAME = r"AUTOQEC_[A-Z]+(?:_[A-Z]+)*\b(?!_)"


def named_in_code() -> set[str]:
    files = [path for folder in ("autoqec", "cli", "tools") for path in (ROOT / folder).rglob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in [*files, ROOT / "Makefile"])
    made = re.findall(r'f"AUTOQEC_\{role\.upper\(\)\}_([A-Z]+)"', text)
    assert set(made) == {"BACKEND", "MODEL"}
    of_roles = {f"AUTOQEC_{role.upper()}_{ending}" for role in get_args(Role) for ending in made}
    return {*re.findall(_NAME, text), *of_roles}


def test_every_variable_in_the_code_is_on_the_page() -> None:
    assert named_in_code() - set(re.findall(_NAME, PAGE)) == set()


def test_every_variable_on_the_page_is_in_the_code() -> None:
    assert set(re.findall(_NAME, PAGE)) - named_in_code() == set()
