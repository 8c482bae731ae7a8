"""docs/results.md says what the reports of the zoo say."""

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
