"""The target of an environment, decided from counts."""

from __future__ import annotations

import pytest

from autoqec.stats.intervals import wilson
from autoqec.stats.target import check_target, reach


@pytest.mark.parametrize(
    ("failures", "shots", "expected"),
    [(0, 100_000, "reached"), (2, 100_000, "reached"), (8, 100_000, "open"), (10, 100_000, "open"),
     (20, 100_000, "missed"), (0, 10_000, "open"), (0, 0, "open")],
)  # fmt: skip
def test_the_wilson_interval_decides(failures: int, shots: int, expected: str) -> None:
    assert reach(failures, shots, 1e-4) == expected


def test_a_higher_level_asks_for_more_evidence() -> None:
    assert reach(4, 100_000, 1e-4, 0.8) == "reached"
    assert reach(4, 100_000, 1e-4, 0.999) == "open"


def test_the_check_takes_the_counts_at_target_p() -> None:
    found = check_target(
        {0.001: (20, 100_000), 0.01: (0, 100_000)}, target_ler=1e-4, target_p=0.001, level=0.9
    )
    assert (found.reached, found.is_reached) == ("missed", False)
    assert found.ler == pytest.approx(2e-4)
    assert found.ler_ci == wilson(20, 100_000, 0.9)
    assert (found.shots, found.p, found.interval_level) == (100_000, 0.001, 0.9)
    assert found.text.startswith("LER 0.0001 at p = 0.001: missed, measured 0.0002 [")


def test_a_target_p_outside_the_sweep_is_not_measured_and_says_why() -> None:
    found = check_target({0.01: (3, 100), 0.005: (1, 100)}, target_ler=1e-4, target_p=0.001, level=0.95)
    assert (found.reached, found.ler, found.ler_ci) == ("not measured", None, None)
    assert found.reason == "target_p = 0.001 is not among the measured p (0.005, 0.01)"
    assert found.text.endswith(f"not measured: {found.reason}")
    assert found.is_reached is None
