"""What a report says about confidence: figures that follow from counts, plain words where they are far off, forgeries that are told."""

from __future__ import annotations

import numpy as np
import pytest

from autoqec.eval.calibration import _kept as kept_row
from autoqec.eval.calibration import calibration_of, follows, remarks
from autoqec.eval.calibration_schema import Calibration
from autoqec.eval.tally import Confidences, Tally
from autoqec.eval.tasks import Scored
from autoqec.stats.confidence import ConfidenceMap, Kept, failure_chance

P, LEVEL = 0.01, 0.95


def drawn(scale: float = 1.0) -> Calibration:
    rng = np.random.default_rng(3)
    log_odds = rng.exponential(5.0, 20_000).astype(np.float32)
    failed = rng.random(20_000) < failure_chance(scale * log_odds)
    return calibration_of(P, "estimate", Confidences(log_odds, failed), ConfidenceMap(scale, 0.0), LEVEL)


def test_honest_log_odds_are_worth_no_note() -> None:
    row = drawn()
    assert row.failures_ci[0] < row.expected < row.failures_ci[1]
    assert row.mapped == pytest.approx(row.expected)
    assert list(remarks([row], P)) == []
    assert [kept.share for kept in row.kept] == [0.001, 0.003, 0.01, 0.022, 0.05, 0.1]
    factors = [kept.factor for kept in row.kept]
    assert factors == sorted(factors)
    assert all(low < value < high for value, (low, high) in ((k.factor, k.factor_ci) for k in row.kept))


@pytest.mark.parametrize(
    ("scale", "words"), [(0.2, "too sure of itself"), (4.0, "less sure than it could be")]
)
def test_log_odds_that_are_far_off_are_a_note_in_plain_words(scale: float, words: str) -> None:
    (note,) = remarks([drawn(scale)], P)
    assert words in note
    assert "no verdict depends on" in note
    assert list(remarks([drawn(scale)], 0.5)) == []


def test_a_report_with_made_up_figures_is_told() -> None:
    row = drawn()
    assert follows(row, LEVEL)
    assert follows(Calibration.model_validate_json(row.model_dump_json()), LEVEL)
    forged = [
        row.model_copy(update={"expected": float(row.failures)}),
        row.model_copy(update={"failures": row.failures - 1}),
        row.model_copy(update={"failures_ci": (0.0, 1.0)}),
        row.model_copy(update={"bins": row.bins[1:]}),
        row.model_copy(update={"kept": [row.kept[0].model_copy(update={"factor": 9.0})]}),
        row.model_copy(update={"kept": [row.kept[0].model_copy(update={"failures": 0})]}),
    ]
    assert not any(follows(one, LEVEL) for one in forged)


def test_figures_that_no_log_odds_have_are_told() -> None:
    """Their sums agree: it is the shots behind them that cannot be."""
    row = drawn()
    first, last = row.bins[0], row.bins[-1]
    shift = 0.5 * first.shots  # more failures expected of sure shots than sure shots expect
    moved = [
        first.model_copy(update={"expected": first.expected - shift}),
        *row.bins[1:-1],
        last.model_copy(update={"expected": last.expected + shift}),
    ]
    wide = [each.model_copy(update={"low": None, "high": None}) for each in row.bins]
    discarded = row.shots - row.kept[0].shots
    kept = Kept(row.kept[0].share, 0.0, row.kept[0].shots, row.failures - discarded - 1)
    forged = [
        row.model_copy(update={"bins": moved}),
        row.model_copy(update={"bins": wide}),
        row.model_copy(update={"bins": [*row.bins[1:], row.bins[0]]}),
        row.model_copy(update={"mapped": 0.5 * row.mapped}),
        row.model_copy(update={"scale": None}),
        row.model_copy(update={"kept": [kept_row(kept, row.failures, row.shots, LEVEL)]}),
    ]
    assert [follows(one, LEVEL) for one in forged] == [False] * len(forged)
    possible = kept._replace(failures=row.failures - discarded)
    assert follows(
        row.model_copy(update={"kept": [kept_row(possible, row.failures, row.shots, LEVEL)]}), LEVEL
    )


def test_only_shots_with_log_odds_count() -> None:
    bits = np.packbits(np.array([1, 0, 0, 1, 0, 0, 0, 0], dtype=bool), bitorder="little")
    tally = Tally()
    tally.add(P, "m", Scored(8, 8, bits, 1.0))
    assert tally.confidences(P, "m") is None
    tally.add(P, "m", Scored(0, 8, bits, 1.0, log_odds=np.arange(8, dtype=np.float32)))
    found = tally.confidences(P, "m")
    assert found is not None
    assert np.array_equal(found.log_odds[found.failed], [0.0, 3.0])
