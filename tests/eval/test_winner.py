"""Who brings the gain, in a report's own words."""

import pytest

from autoqec.eval.paired_row import paired_figures
from autoqec.eval.report import winner
from autoqec.eval.schema import Against, Estimate
from autoqec.stats.table import PairedTable


def estimate(only_untrained_failed: int, only_trained_failed: int) -> Estimate:
    plain = paired_figures(PairedTable(200_000, 1500, 400, 1300), p=5e-3, baseline="pymatching", level=0.95)
    table = PairedTable(200_000, only_untrained_failed, only_trained_failed, 1400)
    untrained = paired_figures(table, p=5e-3, baseline="untrained", level=0.95)
    return Estimate(
        **plain.model_dump(),
        bundle="e",
        interval_level=0.95,
        strongest="pymatching",
        delta_vs_strongest=None,
        delta_vs_strongest_ci=None,
        shots_of_strongest=200_000,
        untrained=Against(**untrained.model_dump()),
    )


def test_what_the_weights_add_is_said_by_the_shots_of_the_estimate() -> None:
    """The ablation has a tenth of them: a fifth fewer failures do not always show there."""
    (said,) = winner("algorithm", estimate(600, 270))
    assert said == "algorithm or weights: both win, LER 1.198x lower than untrained"
    assert winner("algorithm", estimate(440, 430)) == ["algorithm or weights: the algorithm wins"]


@pytest.mark.parametrize("attribution", ["weights", "both"])
def test_the_estimate_takes_nothing_from_the_weights(attribution: str) -> None:
    words = {"weights": "the weights win", "both": "both win"}[attribution]
    for found in (None, estimate(440, 430), estimate(600, 270)):
        (said,) = winner(attribution, found)
        assert said.startswith(f"algorithm or weights: {words}")


def test_where_there_is_no_gain_nobody_wins() -> None:
    assert winner("none", estimate(600, 270)) == []
