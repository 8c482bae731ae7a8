"""A quick `make calibration`: the verifier keeps 2.5% where careless procedures do not, and 95% means 95%."""

import subprocess
import sys
from pathlib import Path

import pytest

from autoqec.stats import calibration as cal
from autoqec.stats.winners_curse import EqualRounds, quoted

TOOL = Path(__file__).parents[2] / "tools" / "calibration.py"


def test_null_campaigns_are_not_verified() -> None:
    """At most 2.5%: at the limit itself, 8 or more of 120 would come up once in 80 times."""
    rate = cal.false_gains(cal.verifier, cal.Campaign(3e-3, 1.5), 120, seed=2)
    assert rate.hits < 8


@pytest.mark.parametrize("procedure", [cal.full_alpha, cal.peeking, cal.reused_holdout])
def test_the_simulation_sees_a_careless_procedure(procedure: cal.Procedure) -> None:
    rate = cal.false_gains(procedure, cal.Campaign(1e-2, 0.5), 120, seed=2)
    assert rate.interval[0] > 0.025


def test_a_true_gain_is_still_found() -> None:
    class Gain(cal.Campaign):
        @property
        def shares(self) -> cal.Cells:
            return cal.cells(self.ler, self.kappa, 0.25)

    assert cal.false_gains(cal.verifier, Gain(1e-2, 0.5, rounds=1, retries=0), 60, seed=2).hits == 60


@pytest.mark.parametrize(("ler", "shots"), [(1e-2, 66_000), (1e-3, 663_000)])
def test_score_intervals_hold_the_truth(ler: float, shots: int) -> None:
    found = cal.coverage(cal.cells(ler, 0.5, 0.1), cal.fixed_size(shots), 1500, seed=6)
    for rate in (found.difference, found.ratio, found.ler):
        assert 0.93 < rate.value < 0.97
    assert found.mean_over_truth == pytest.approx(1, abs=0.05)


def test_a_sequential_stop_overstates_the_gain() -> None:
    """Why published effect sizes come from an estimate bundle."""
    stop = cal.sequential_stop(8000, 264_000, 0.0025)
    assert 1.05 < cal.coverage(cal.cells(1e-2, 0.5, 0.1), stop, 300, seed=6).mean_over_truth < 1.3


def test_the_best_of_equal_rounds_is_flattered_by_its_test_and_not_by_its_estimate() -> None:
    by_test, by_estimate, largest = quoted(EqualRounds(1e-2), 200, seed=7)
    assert by_test.mean_over_truth > 1.3
    assert by_test.covered.value < 0.9
    assert by_estimate.mean_over_truth == pytest.approx(1, abs=0.1)  # 4 standard errors
    assert by_estimate.covered.value >= 0.95
    assert largest.covered.interval[1] >= 0.95


def test_the_tool_prints_its_tables_and_judges_them() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), "--campaigns", "4", "--replications", "40", "--seed", "3"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert "the verifier, total" in done.stdout
    assert "score, at a sequential stop" in done.stdout
    assert "Score intervals in total" in done.stdout
    assert "quoted by its estimate" in done.stdout
    assert ("A PROMISE IS BROKEN" in done.stdout) == (done.returncode == 1)
