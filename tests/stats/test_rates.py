"""Rates per round and per qubit as sinter has them, and Lambda with its interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sinter

from autoqec.stats.intervals import wilson
from autoqec.stats.rates import per_qubit, per_round, suppression


@pytest.mark.parametrize("ler", [0.0, 1e-9, 1e-3, 0.1, 0.4])
@pytest.mark.parametrize(("rounds", "qubits"), [(1, 1), (5, 1), (6, 12), (1000, 2)])
def test_a_rate_per_round_is_sinters(ler: float, rounds: int, qubits: int) -> None:
    theirs = sinter.shot_error_rate_to_piece_error_rate(ler, pieces=rounds, values=qubits)
    assert per_round(ler, rounds, qubits) == pytest.approx(theirs, rel=1e-6, abs=1e-15)


def test_the_rates_of_qubits_and_rounds_make_up_the_shot() -> None:
    assert 1 - (1 - per_qubit(0.3, 12)) ** 12 == pytest.approx(0.3)
    flip = per_round(0.2, 5)
    assert (1 - (1 - 2 * flip) ** 5) / 2 == pytest.approx(0.2)
    assert per_round(0.7, 5) == 0.5  # worse than a coin
    assert per_qubit(1.0, 3) == 1.0


def test_lambda_is_the_ratio_per_step_of_two() -> None:
    bounds = (0.009, 0.011), (0.0009, 0.0011)
    value, (low, high) = suppression(0.01, bounds[0], 0.001, bounds[1])
    assert value == pytest.approx(10)
    assert low < 10 < high
    two_steps, (low_2, high_2) = suppression(0.01, bounds[0], 0.001, bounds[1], steps=2)
    assert two_steps == pytest.approx(math.sqrt(10))
    assert (low_2, high_2) == (pytest.approx(math.sqrt(low)), pytest.approx(math.sqrt(high)))


def test_without_failures_lambda_has_a_lower_bound_alone() -> None:
    value, (low, high) = suppression(0.01, (0.008, 0.012), 0.0, (0.0, 0.004))
    assert (value, high) == (None, math.inf)
    assert low == pytest.approx(2.0)


def test_the_interval_of_lambda_covers_the_true_one() -> None:
    """4,000 pairs of samples: coverage 95% within 5 standard errors, on its low side."""
    rng, shots, rates, level = np.random.default_rng(11), 20_000, (0.01, 0.004), 0.95
    covered = 0
    draws = zip(*(rng.binomial(shots, rate, size=4000) for rate in rates), strict=True)
    for counts in draws:
        (x, x_bounds), (y, y_bounds) = ((int(n) / shots, wilson(int(n), shots, level)) for n in counts)
        low, high = suppression(x, x_bounds, y, y_bounds)[1]
        covered += low <= rates[0] / rates[1] <= high
    assert covered / 4000 > 0.95 - 5 * math.sqrt(0.95 * 0.05 / 4000)
    assert covered / 4000 < 0.99
