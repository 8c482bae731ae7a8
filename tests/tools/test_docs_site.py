"""The documentation: pages made from the code are complete, commands that pages show exist, and the site needs no network."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from browser import MISSING, Browser
from docs_reference import pages
from documented_commands import READ, shown

import autoqec
from autoqec.commands import VERBS, main
from autoqec.decoders.baselines import registry
from autoqec.decoders.dsl_schema import PredecoderDSL

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


def test_every_command_and_option_is_in_the_reference(made: dict[str, str]) -> None:
    text = made["reference/cli.md"]
    assert [verb for verb in VERBS if f"### autoqec {verb}\n" not in text] == []
    assert "--verify-shots" in text
    assert "### autoqec plot calibration" in text


def test_every_public_name_is_in_the_reference(made: dict[str, str]) -> None:
    text = made["reference/api.md"]
    assert [name for name in autoqec.__all__ if f"## {name}\n" not in text] == []
    assert "- `shots`: per p." in text
    assert "### Predecoder.decode_with_confidence" in text


def test_every_option_of_a_config_is_in_the_reference(made: dict[str, str]) -> None:
    text = made["reference/config.md"]
    for name, field in PredecoderDSL.model_fields.items():
        assert re.search(rf"^\| `{name}[`.]", text, re.MULTILINE), (name, field)
    assert "| `neural_bp.iterations` | integer at least 1" in text
    assert [name for name in registry.names() if f"- `{name}`" not in made["reference/registries.md"]] == []


def test_the_site_has_every_page(made: dict[str, str]) -> None:
    listed = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed == {path.name for path in (ROOT / "docs").glob("*.md")} | set(made)
    assert yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["theme"]["font"] is False


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_commands_that_a_page_shows_have_such_options(page: Path) -> None:
    added_by_it = re.findall(r'^\+ +"(\w+)": \(', page.read_text(encoding="utf-8"), re.MULTILINE)
    for line in shown(page):
        if line.split()[1] in added_by_it:
            continue  # tests/tools/test_extending.py plays it
        words = shlex.split(
            line.partition(" #")[0].replace("...", "").replace("[", "").replace("]", "").partition("|")[0]
        )[1:]
        command: click.Command = main
        context = click.Context(main)
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            below = command.get_command(context, words.pop(0))
            assert below is not None, line
            command = below
        known = {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        } | {"--help", "--version", "-h"}
        asked = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert asked <= known, line


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_built_and_read_without_a_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="?(?:https?:)?//[^"\s>]*', text) == []
        assert (
            re.findall(r'<link[^>]*rel="?(?:stylesheet|preload|preconnect)[^>]*href="?(?:https?:)?//', text)
            == []
        )


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed")
def test_the_site_is_searched_from_files(site: Path) -> None:
    with Browser() as browser:
        browser.open((site / "reference" / "cli.html").as_uri())
        browser.run("document.querySelector('#__search').click()")
        browser.type(".md-search__input", "calibration")
        links = "return [...document.querySelectorAll('.md-search-result__link')].map(link => link.href)"
        assert any("statistics.html" in link for link in browser.until(links))
        assert browser.complaints() == []
