"""The pages in a real browser: what a reader sees and does, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import MISSING, Browser
from run_folders import add_round, make_run_folder
from serving import Server

from autoqec.report.page.data import page_data
from autoqec.report.page.html import REPORT, page
from autoqec.report.run_view import view_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("own_home"),
    pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed"),
]

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
SCRIPT = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\"> try"
MOST_BYTES = 8 << 20
RIGHT, TAB = "\ue014", "\ue004"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


def _written(folder: Path, target: Path) -> str:
    target.write_text(page("A run", page_data(view_run(folder)), REPORT))
    return target.as_uri()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, own_home: None) -> str:
    folder = make_run_folder(tmp_path_factory.mktemp("shown") / "runs" / "look", rounds=12, words=SCRIPT)
    return _written(folder, folder.parent / "report.html")


@pytest.fixture
def opened(browser: Browser, report: str) -> Browser:
    browser.resize(1200, 900)
    browser.open("about:blank")
    browser.complaints()
    browser.requests()
    browser.open(report)
    browser.until("return document.querySelectorAll('.point').length")
    return browser


def test_it_needs_nothing_but_itself(opened: Browser, report: str) -> None:
    assert opened.requests() == [report]
    assert opened.complaints() == []
    assert opened.run("return document.title") == "A run"
    assert opened.run("return document.querySelectorAll('img').length") == 0
    assert "onerror=" in opened.run("return document.querySelector('#rounds').textContent")


def test_hovering_a_point_of_the_front_tells_its_figures(opened: Browser) -> None:
    opened.hover("#figure-pareto .point[data-round='2'] .mark")
    tip = opened.until(
        "return [...document.querySelectorAll('#figure-pareto .tip:not([hidden])')].map(e => e.textContent)[0]"
    )
    assert "round 2" in tip
    assert "verified" in tip
    assert "FLOPs" in tip


def test_sorting_and_filtering_the_rounds(opened: Browser) -> None:
    rounds = (
        "return [...document.querySelectorAll('#rounds tbody tr')].map(r => Number(r.cells[0].textContent))"
    )
    assert opened.run(rounds) == list(range(1, 13))
    opened.click("#sort-round")
    assert opened.run(rounds) == list(range(12, 0, -1))
    assert opened.run("return document.querySelector('#sort-round').parentNode.ariaSort") == "descending"
    opened.type("#filter", "verified")
    assert opened.run(rounds) == [12, 8, 6, 4, 2]
    opened.run(
        "const s = document.querySelector('#choice'); s.value = 'candidate'; s.dispatchEvent(new Event('change'))"
    )
    assert opened.run(rounds) == []
    assert opened.run("return document.querySelector('#rounds [role=status]').textContent") == "0 of 12 shown"


def test_a_node_of_the_fork_graph_leads_to_its_round(opened: Browser) -> None:
    opened.click("#figure-forks a[href='#round-3'] text")
    assert opened.until("return document.activeElement.textContent") == "Round 3"
    text = opened.run("return document.querySelector('#one').innerText")
    assert "Differs from its parent in" in text
    assert "neural_bp.iterations" in text
    opened.click("#after")
    assert opened.until("return document.querySelector('#round-title').textContent", lambda t: t == "Round 4")
    assert "Guards" in opened.run("return document.querySelector('#one').innerText")


def test_confidence_has_both_curves(opened: Browser) -> None:
    marks = "return [...document.querySelectorAll('#figure-calibration svg .point')].map(e => e.getAttribute('aria-label'))"
    words = opened.run(marks)
    assert opened.run("return document.querySelectorAll('#figure-calibration .plot svg').length") == 2
    assert any("expects" in text for text in words)
    assert any("2.2% discarded" in text for text in words)
    assert opened.complaints() == []


def test_cascades_have_shares_and_costs(opened: Browser) -> None:
    words = opened.run(
        "return [...document.querySelectorAll('#figure-stages svg .point')].map(e => e.getAttribute('aria-label'))"
    )
    assert opened.run("return document.querySelectorAll('#figure-stages .plot svg').length") == 2
    assert any("stage 3: 0% of 40,000 shots, at most" in text for text in words)
    assert any("all stages: 9,420,000" in text for text in words)
    assert opened.complaints() == []


def test_light_and_dark(opened: Browser) -> None:
    shade = "return getComputedStyle(document.body).backgroundColor"
    before = opened.run(shade)
    opened.click("#theme")
    assert opened.run(shade) != before
    opened.click("#theme")
    assert opened.run(shade) == before


def test_by_keyboard_alone(opened: Browser) -> None:
    opened.run("document.querySelector('#figure-pareto svg').focus()")
    opened.press(RIGHT)
    first = opened.run("return document.activeElement.getAttribute('aria-label')")
    opened.press(RIGHT)
    assert "gain" in first
    assert opened.run("return document.activeElement.getAttribute('aria-label')") != first
    assert opened.run("return document.querySelectorAll('#figure-pareto .tip:not([hidden])').length") == 1
    opened.run("document.querySelector('#figure-forks a').focus()")
    opened.press(TAB)
    assert opened.run("return document.activeElement.getAttribute('href')") == "#round-2"


def test_every_figure_has_its_table_and_csv(opened: Browser) -> None:
    figures = opened.run(
        "return [...document.querySelectorAll('figure')].map(f => [f.id, f.querySelectorAll('details').length, f.innerText.includes('CSV')])"
    )
    assert len(figures) >= 7
    assert all(tables and csv for _, tables, csv in figures)
    opened.run("document.querySelector('#figure-ler details').open = true")
    rows = opened.until("return document.querySelectorAll('#figure-ler tbody tr').length")
    assert rows > 5
    text = opened.run("return csvOf({columns: [{heading: 'a'}], rows: [['=1+1'], ['x,\"y\"'], [-2]]})")
    assert text.split("\r\n")[:4] == ["a", "'=1+1", '"x,""y"""', "-2"]


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_sticks_out(opened: Browser, width: int) -> None:
    opened.resize(width, 800)
    opened.until(
        f"return Math.max(...[...document.querySelectorAll('.plot svg')].map(e => e.clientWidth)) <= {width}"
    )
    assert opened.run("return document.documentElement.scrollWidth") == width


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: npm install --no-save axe-core")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accessibility(opened: Browser, theme: str) -> None:
    opened.run(
        "document.documentElement.dataset.theme = arguments[0]; for (const d of document.querySelectorAll('details')) d.open = true",
        theme,
    )
    opened.run(AXE.read_text())
    ask = "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then((r) => done(r.violations.map((v) => [v.id, v.impact, v.nodes[0].html])))"
    assert [found for found in opened.later(ask) if found[1] in ("serious", "critical")] == []
    opened.run("document.querySelector('#filter').parentNode.replaceWith(document.querySelector('#filter'))")
    assert "label" in {found[0] for found in opened.later(ask)}  # it does find what is wrong


def test_two_hundred_rounds(browser: Browser, tmp_path: Path) -> None:
    folder = make_run_folder(tmp_path / "runs" / "long", rounds=200)
    browser.open(_written(folder, tmp_path / "report.html"))
    assert (tmp_path / "report.html").stat().st_size < MOST_BYTES
    assert browser.run("return document.querySelectorAll('#rounds tbody tr').length") == 200
    browser.click("#sort-gain")
    browser.type("#filter", "VERIFIED")
    assert browser.run("return document.querySelectorAll('#rounds tbody tr').length") == 80
    assert browser.run("return document.querySelectorAll('*').length") < 20_000
    assert browser.complaints() == []


def test_a_live_page_follows_its_run(browser: Browser, tmp_path: Path) -> None:
    folder = make_run_folder(tmp_path / "runs" / "going", rounds=2, planned=4)
    server = Server(folder.parent)
    try:
        browser.resize(1200, 900)
        browser.open(f"http://127.0.0.1:{server.port}/runs/going")
        rows = "return document.querySelectorAll('#rounds tbody tr').length"
        assert browser.run(rows) == 2
        browser.run("window.before = document.querySelector('#rounds')")
        browser.until("return performance.getEntriesByName(location.origin + '/api/runs/going').length")
        assert browser.run("return window.before.isConnected")  # what did not change is not drawn again
        browser.type("#filter", "try")
        add_round(folder, 3)
        assert browser.until(rows, lambda n: n == 3)
        assert browser.run("return document.querySelector('#filter').value") == "try"
        assert "3 of 4 rounds" in browser.run("return document.querySelector('#now').textContent")
        browser.open(f"http://127.0.0.1:{server.port}/")
        browser.click("a[href='/runs/going']")
        assert browser.until("return location.pathname", lambda path: path == "/runs/going")
        assert browser.complaints() == []
    finally:
        server.stop()
