"""The sequential decision: its e-process is what it says, and no way of stopping makes it lie."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta

from autoqec.errors import InputError
from autoqec.stats.intervals import mcnemar_one_sided
from autoqec.stats.sequential import (
    MIXTURE,
    anytime_p,
    confirm,
    confirmation_alpha,
    decide_evidence,
    log_e_value,
    look_schedule,
)
from autoqec.stats.table import PairedTable

counts = st.integers(0, 500)


@pytest.mark.parametrize(("b", "c"), [(0, 0), (7, 3), (3, 7), (60, 40), (0, 30)])
def test_the_e_value_is_the_mixture_of_likelihood_ratios(b: int, c: int) -> None:
    def integrand(theta: float) -> float:
        return (2 * theta) ** b * (2 - 2 * theta) ** c * 2 * float(beta.pdf(theta, MIXTURE, MIXTURE))

    assert math.exp(float(log_e_value(b, c))) == pytest.approx(quad(integrand, 0.5, 1)[0], rel=1e-6)


@given(counts, counts, st.floats(0, 0.5))
def test_the_e_process_is_fair_at_one_half_and_falls_below_it(b: int, c: int, theta: float) -> None:
    now, win, loss = (math.exp(float(log_e_value(*pair))) for pair in ((b, c), (b + 1, c), (b, c + 1)))
    assert 0.5 * win + 0.5 * loss == pytest.approx(now, rel=1e-8)
    assert theta * win + (1 - theta) * loss <= now * (1 + 1e-8)


@given(counts, counts)
def test_a_gain_that_is_decided_is_significant_by_exact_mcnemar(b: int, c: int) -> None:
    assert mcnemar_one_sided(b, c) <= anytime_p(b, c) * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("theta", [0.5, 0.45])
def test_looking_after_every_discordant_shot_is_safe(theta: float) -> None:
    """At most 5% of 4,000 runs without a gain ever reach E >= 20 in 2,000 looks."""
    rng = np.random.default_rng(3)
    wins = np.cumsum(rng.random((4000, 2000)) < theta, axis=1)
    looks = np.arange(1, 2001)
    ever = (log_e_value(wins, looks - wins) >= math.log(20)).any(axis=1).mean()
    assert ever <= 0.05
    if theta == 0.5:
        assert ever > 0.01  # the test is not simply blind


def test_true_gain_and_true_loss_are_found() -> None:
    table = PairedTable(100_000, b=300, c=180, both=400)
    mirrored = PairedTable(100_000, b=180, c=300, both=400)
    gain, loss = (decide_evidence(t, alpha_gain=0.00125, alpha_loss=0.00125) for t in (table, mirrored))
    assert (gain.decision, loss.decision) == ("gain", "loss")
    assert (gain.p_gain, gain.p_loss) == (loss.p_loss, loss.p_gain)
    assert "gain" in gain.reason
    assert "loss" in loss.reason


@pytest.mark.parametrize(
    ("table", "missing"),
    [
        (PairedTable(1000, b=19, c=0, both=200), "b + c = 19 < 20"),
        (PairedTable(1000, b=60, c=0, both=39), "baseline failures = 99 < 100"),
    ],
)
def test_too_few_failures_decide_nothing(table: PairedTable, missing: str) -> None:
    evidence = decide_evidence(table, alpha_gain=0.4)
    assert (evidence.decision, evidence.enough) == ("undecided", False)
    assert missing in evidence.reason


def test_equal_decoders_stay_undecided() -> None:
    evidence = decide_evidence(PairedTable(10**6, b=500, c=500, both=3000), alpha_gain=0.025)
    assert (evidence.decision, evidence.enough) == ("undecided", True)


def test_alpha_runs_out() -> None:
    assert sum(confirmation_alpha(20, spent) for spent in range(100)) == pytest.approx(0.025)
    assert confirmation_alpha(20, 19) == 0.00125
    assert confirmation_alpha(20, 20) == 0.0
    overwhelming = PairedTable(10**6, b=10_000, c=0)
    assert decide_evidence(overwhelming, alpha_gain=0.00125).decision == "gain"
    without = decide_evidence(overwhelming, alpha_gain=confirmation_alpha(20, 20))
    assert without.decision == "undecided"
    assert "no alpha is left" in without.reason


@given(st.integers(1, 10**6), st.integers(0, 10**7), st.floats(1.01, 10))
def test_looks_grow_from_the_floor_to_the_cap(floor: int, more: int, growth: float) -> None:
    looks = list(look_schedule(floor, floor + more, growth))
    assert (looks[0], looks[-1]) == (floor, floor + more)
    assert looks == sorted(set(looks))


def test_a_confirmation_takes_fresh_shots_until_it_can_decide() -> None:
    asked: list[int] = []

    def more(shots: int) -> PairedTable:
        asked.append(shots)
        return PairedTable(shots, b=shots // 100, c=shots // 200, both=shots // 50)

    evidence = confirm(more, min_shots=1000, max_shots=10**6, alpha_gain=0.001)
    assert evidence.decision == "gain"
    assert evidence.table.shots == sum(asked) < 10**6
    assert asked[:3] == [1000, 500, 750]
    before = evidence.table.shots - asked[-1]
    assert (
        decide_evidence(
            PairedTable(before, before // 100, before // 200, before // 50), alpha_gain=0.001
        ).decision
        == "undecided"
    )


def test_a_confirmation_without_a_difference_ends_at_the_cap() -> None:
    evidence = confirm(
        lambda shots: PairedTable(shots, b=shots // 100, c=shots // 100),
        min_shots=1000,
        max_shots=7777,
        alpha_gain=0.025,
    )
    assert (evidence.decision, evidence.table.shots) == ("undecided", 7777)


def test_shots_may_come_in_chunks() -> None:
    taken: list[int] = []

    def more(shots: int) -> PairedTable:
        taken.append(math.ceil(shots / 10_000) * 10_000)
        return PairedTable(taken[-1], b=taken[-1] // 100, c=taken[-1] // 100)

    assert confirm(more, min_shots=1000, max_shots=25_000, alpha_gain=0.025).table.shots == 30_000
    assert taken == [10_000, 10_000, 10_000]


@pytest.mark.parametrize("cells", [(-1, 0, 0), (5, 5, 1)])
def test_a_table_holds_counts_of_its_shots(cells: tuple[int, int, int]) -> None:
    with pytest.raises(InputError, match="are not counts of 10 shots"):
        PairedTable(10, *cells)


@pytest.mark.parametrize(
    "call",
    [
        lambda: confirmation_alpha(0),
        lambda: list(look_schedule(10, 5)),
        lambda: decide_evidence(PairedTable(1, 0, 0), alpha_gain=1.5),
    ],
)
def test_nonsense_is_refused(call: object) -> None:
    with pytest.raises(InputError, match="give"):
        call()  # type: ignore[operator]
