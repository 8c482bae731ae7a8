"""Expected against observed failures, and the map between them, on shots whose chances are known."""

import math

import numpy as np
import pytest

from autoqec.stats.confidence import (
    FEWEST_FAILURES,
    SHARES,
    ConfidenceMap,
    after_discarding,
    failure_chance,
    fit_map,
    lowered,
    reliability,
)

SHOTS = 100_000


def drawn(scale, offset, seed=1):
    """Shots that say m and are right with log-odds scale * m + offset."""
    rng = np.random.default_rng(seed)
    m = np.abs(rng.normal(5.0, 3.0, SHOTS))
    return m, rng.random(SHOTS) < failure_chance(scale * m + offset)


def test_honest_log_odds_agree_bin_by_bin():
    bins = reliability(*drawn(1.0, 0.0))
    assert sum(each.shots for each in bins) == SHOTS
    for each in bins:
        assert abs(each.failures - each.expected) < 5 * math.sqrt(each.expected + 1)
        assert each.mapped is None


@pytest.mark.parametrize(("scale", "offset"), [(0.5, 0.0), (1.7, -0.6), (0.0, 4.0)])
def test_the_map_of_some_shots_mends_the_sum_of_others(scale, offset):
    fitted = fit_map(*drawn(scale, offset, seed=1))
    assert fitted == pytest.approx((scale, offset), abs=0.12)
    m, failed = drawn(scale, offset, seed=2)
    bins = reliability(m, failed, fitted)
    assert sum(each.mapped for each in bins) == pytest.approx(failed.sum(), rel=0.06)
    assert abs(sum(each.expected for each in bins) / failed.sum() - 1) > 0.2


def test_a_map_never_falls_and_needs_failures():
    m, failed = drawn(1.0, 0.0)
    assert fit_map(m, ~failed).scale == 0.0
    few = np.zeros(SHOTS, dtype=bool)
    few[: FEWEST_FAILURES - 1] = True
    assert fit_map(m, few) is None


def test_infinite_log_odds_are_certain():
    m = np.array([math.inf, math.inf, 1.0, -1.0] * 100)
    failed = np.array([False, False, False, True] * 100)
    found = fit_map(m, failed)
    assert found is not None
    assert np.isfinite(found).all()
    bins = reliability(m, failed, ConfidenceMap(1.0, 0.0))
    assert [(each.shots, each.failures) for each in bins] == [(100, 100), (100, 0), (200, 0)]
    assert bins[-1].expected < 1e-200


def test_what_is_left_after_discarding():
    m = np.arange(1000.0)
    failed = np.zeros(1000, dtype=bool)
    failed[[0, 5, 30, 800]] = True
    kept = after_discarding(m, failed)
    assert [each.share for each in kept] == list(SHARES)
    assert [(each.shots, each.failures) for each in kept] == [
        (999, 3), (997, 3), (990, 2), (978, 2), (950, 1), (900, 1)
    ]  # fmt: skip
    assert kept[2].below == 9.0
    factor, (low, high) = lowered(4, 1000, kept[2], 0.95)
    assert factor == pytest.approx((4 / 1000) / (2 / 990))
    assert low < factor < high


def test_without_a_failure_left_the_factor_has_a_lower_bound_alone():
    kept = after_discarding(np.arange(1000.0), np.arange(1000) < 1)[-1]
    factor, (low, high) = lowered(1, 1000, kept, 0.95)
    assert factor is None
    assert low > 0
    assert high == math.inf
