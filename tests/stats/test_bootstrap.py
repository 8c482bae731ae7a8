"""Paired bootstrap: near the score intervals, never a point."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoqec.stats import intervals
from autoqec.stats.bootstrap import paired_bootstrap
from autoqec.stats.calibration import bootstrap_intervals, cells, coverage, fixed_size
from autoqec.stats.table import PairedTable


@given(*[st.integers(0, 40)] * 4, st.floats(0.5, 0.99))
def test_every_interval_has_a_width_and_holds_the_estimate(
    b: int, c: int, both: int, rest: int, level: float
) -> None:
    shots = b + c + both + rest
    table = PairedTable(shots, b, c, both)
    found = paired_bootstrap(table, level, seed=1, resamples=500)
    assert 0 <= found.ler_baseline[0] < found.ler_baseline[1] <= 1
    assert 0 <= found.ler_candidate[0] < found.ler_candidate[1] <= 1
    assert -1 <= found.difference[0] < found.difference[1] <= 1
    assert 0 <= found.ratio[0] < found.ratio[1]
    if shots:
        assert found.ler_candidate[0] <= (both + c) / shots <= found.ler_candidate[1]
        assert found.difference[0] <= table.delta <= found.difference[1]


def test_it_agrees_with_the_score_intervals_on_many_failures() -> None:
    table = PairedTable(200_000, b=1000, c=700, both=1500)
    found = paired_bootstrap(table, seed=1)
    assert found.difference == pytest.approx(intervals.paired_difference(1000, 700, 200_000), rel=0.05)
    assert found.ratio == pytest.approx(intervals.paired_ratio(1000, 700, 1500), rel=0.02)
    assert found.ler_baseline == pytest.approx(intervals.wilson(2500, 200_000), rel=0.02)


def test_a_seed_gives_one_answer_and_a_higher_level_a_wider_one() -> None:
    table = PairedTable(10_000, b=30, c=20, both=50)
    assert paired_bootstrap(table, seed=4) == paired_bootstrap(table, seed=4)
    wide, narrow = paired_bootstrap(table, 0.99, seed=4), paired_bootstrap(table, 0.8, seed=4)
    assert wide.difference[0] < narrow.difference[0] < narrow.difference[1] < wide.difference[1]


def test_a_candidate_that_never_failed_has_an_open_ratio() -> None:
    low, high = paired_bootstrap(PairedTable(1000, b=50, c=0, both=0), seed=1).ratio
    assert 5 < low < 50
    assert high == math.inf


def test_coverage() -> None:
    found = coverage(cells(1e-2, 0.5, 0.1), fixed_size(30_000), 600, 11, bootstrap_intervals)
    for rate in (found.difference, found.ratio, found.ler):
        assert 0.92 < rate.value < 0.975
