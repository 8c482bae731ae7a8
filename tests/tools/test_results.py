"""docs/results.md and the picture of README say what the reports of the zoo say."""

from pathlib import Path

from results_picture import KINDS, draw, points

from autoqec.finds.zoo import zoo_entries
from tools.results import PAGE, page


def test_the_page_is_that_of_the_reports() -> None:
    assert PAGE.read_text() == page(zoo_entries()), "run python tools/results.py"


def test_every_classical_decoder_is_there_at_every_p() -> None:
    text = page(zoo_entries())
    for entry in zoo_entries():
        report = entry.report
        if report is None or not entry.is_verified:
            assert f"## {entry.name}" not in text
            continue
        for row in (each for each in report.baselines if each.shots and not each.is_candidate):
            ler = f"{row.ler:.4g} (" if row.ler else "below "
            assert f"| {row.p:g} | {row.name} | {row.shots} | {ler}" in text
        assert report.estimate is not None
        assert f"{report.estimate.ratio:.4g}" in text
        assert report.estimate.bundle in text


def test_the_picture_has_the_estimate_of_every_verified_entry(tmp_path: Path) -> None:
    shown = points(zoo_entries())
    for entry in zoo_entries():
        estimate = None if entry.report is None or not entry.is_verified else entry.report.estimate
        found = {point.kind: point for point in shown if point.entry.startswith(f"{entry.name},")}
        assert bool(found) == (estimate is not None)
        if estimate is not None:
            assert found[KINDS[0]].ratio == estimate.ratio
            assert found[KINDS[1]].ratio == estimate.vs_strongest.ratio
            assert (KINDS[2] in found) == (estimate.untrained.b + estimate.untrained.c > 0)
    draw(zoo_entries(), tmp_path / "zoo.png")
    assert (tmp_path / "zoo.png").read_bytes().startswith(b"\x89PNG")
