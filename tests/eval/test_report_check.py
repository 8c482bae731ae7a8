"""Claims against fresh shots: honest ones hardly ever contradict them, and inflated ones do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autoqec.decoders.gates import expected_flops
from autoqec.eval.calibration import calibration_of
from autoqec.eval.cascade_check import costs_apart, follows
from autoqec.eval.cascade_schema import CascadeCost, StageRow
from autoqec.eval.paired_row import paired_figures, paired_row
from autoqec.eval.report_check import FALSE_ALARM, disagreements
from autoqec.eval.report_check import _calibration as calibration_contradictions
from autoqec.eval.report_check import _estimate as estimate_contradictions
from autoqec.eval.schema import Against, BaselineRow, CostCensus, Estimate, VerifyReport
from autoqec.eval.tally import Confidences
from autoqec.stats.intervals import upper_bound
from autoqec.stats.sequential import confirm, confirmation_alpha
from autoqec.stats.table import PairedTable

P, LEVEL = 0.01, 0.95


def _report(table: PairedTable, **facts: object) -> VerifyReport:
    row = paired_row(table, p=P, baseline="pymatching", level=LEVEL, us_model=1.0, us_backend=1.0)
    given: dict[str, object] = {
        "verdict": "VERIFIED",
        "ler_holdout": row.ler_candidate,
        "ler_holdout_ci": row.ler_candidate_ci,
        "delta_ler_holdout": row.delta,
        "ler_shuffled": 0.1,
        "ablation_sanity_ok": True,
        "holdout_seeds_used": [9000],
        "seed_leakage_check_ok": True,
        "notes": "",
        "reference_p": P,
        "interval_level": LEVEL,
        "shots": row.shots,
        "per_p": [row],
        "cost": CostCensus(flops_per_syndrome=1000, n_params=10, n_bytes=40),
    }
    return VerifyReport(**{**given, **facts})  # type: ignore[arg-type]


def _sampled(rng: np.random.Generator, shots: int, b: float, c: float, both: float) -> PairedTable:
    counts = rng.multinomial(shots, [b, c, both, 1 - b - c - both])
    return PairedTable(shots, *map(int, counts[:3]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("b", "c"), [(0.030, 0.020), (0.0255, 0.022)], ids=["clear gain", "gain at the limit"]
)
def test_honest_claims_contradict_fresh_shots_less_than_once_in_a_thousand(b: float, c: float) -> None:
    """The claim stopped where it was significant, and is there only if it was: both make it too large on average."""
    rng = np.random.default_rng(7)
    alarms = claims = 0
    for _ in range(3000):
        found = confirm(
            lambda n: _sampled(rng, n, b, c, 0.05),
            min_shots=10_000,
            max_shots=50_000,
            alpha_gain=confirmation_alpha(20),
        )
        if found.decision == "gain":
            claims += 1
            fresh = _sampled(rng, 200_000, b, c, 0.05)
            alarms += bool(disagreements(_report(found.table), _report(fresh), comparisons=3))
    assert claims > 300
    assert alarms <= max(1, 3 * FALSE_ALARM * claims)


def test_a_calibration_of_other_shots_than_the_estimates_is_told() -> None:
    table = PairedTable(10_000, 310, 190, 510)
    figures = paired_figures(table, p=P, baseline="pymatching", level=LEVEL)
    estimate = Estimate(
        **figures.model_dump(), bundle="e", interval_level=LEVEL, strongest="pymatching", delta_vs_strongest=None,
        delta_vs_strongest_ci=None, shots_of_strongest=10_000,
    )  # fmt: skip
    log_odds = np.linspace(0.0, 8.0, 10_000)
    for failures, contradictions in ((700, 0), (699, 1)):
        row = calibration_of(P, "estimate", Confidences(log_odds, np.arange(10_000) < failures), None, LEVEL)
        report = _report(table, estimate=estimate, calibration=[row])
        assert len(list(calibration_contradictions(report, LEVEL, P, [P]))) == contradictions
    others = [{"p": 0.5}, {"source": "test"}]
    for changes in others:
        report = _report(table, estimate=estimate, calibration=[row.model_copy(update=changes)])
        assert list(calibration_contradictions(report, LEVEL, P, [P]))
    huge = row.model_copy(update={"shots": 10**400, "failures": 10**399})
    report = _report(table, estimate=estimate, calibration=[huge])
    assert len(list(calibration_contradictions(report, LEVEL, P, [P]))) == 1


def test_what_is_inflated_is_told() -> None:
    fresh = _report(PairedTable(100_000, 3000, 2000, 5000))
    assert disagreements(_report(PairedTable(10_000, 310, 190, 510)), fresh, comparisons=3) == []
    (gain, *_) = disagreements(_report(PairedTable(10_000, 700, 200, 500)), fresh, comparisons=3)
    assert gain == "claims a gain of 0.05 at p = 0.01, and 0.01 is measured"
    found = disagreements(_report(PairedTable(10_000, 310, 190, 2500)), fresh, comparisons=3)
    assert [line.split(" of ")[0] for line in found] == ["claims a LER", "claims a baseline LER"]
    cheap = CostCensus(flops_per_syndrome=12, n_params=3, n_bytes=12)
    found = disagreements(_report(PairedTable(10_000, 310, 190, 510), cost=cheap), fresh, comparisons=3)
    assert found == [
        "claims 12 flops_per_syndrome, and 1000 are counted",
        "claims 3 n_params, and 10 are counted",
    ]


def _cascade(count: int = 1000, shots: int = 10_000, **changes: Any) -> CascadeCost:
    """`count` of the shots reach the second stage; its cost depends on the shot."""
    flops, shares = [1000, 40_000], [1.0, count / shots]
    upper = [1.0, upper_bound(count, shots)]
    row = StageRow(
        p=P, shots=shots, shares=shares, shares_upper=upper,
        flops_per_syndrome=expected_flops(flops, shares), flops_upper=expected_flops(flops, upper),
    )  # fmt: skip
    given = {
        "stage_flops": flops, "stage_errors": [0.0, 400.0], "worst_flops": sum(flops), "per_p": [row],
        "decoder_us_p50": 10.0, "decoder_us_p99": 20.0, "decoder_us_p999": 30.0,
    }  # fmt: skip
    return CascadeCost(**{**given, **changes})


def _staged(stages: CascadeCost, flops: int | None = None) -> CostCensus:
    expected = stages.per_p[0].flops_per_syndrome if flops is None else flops
    return CostCensus(flops_per_syndrome=expected, n_params=10, n_bytes=40, cascade=stages)


def test_costs_of_a_cascade_follow_from_its_counts() -> None:
    honest = _cascade()
    assert follows(_staged(honest), P, {P: 10_000})
    assert follows(_staged(honest, 6000), P, {P: 10_000}), "CPU time may be charged on top"
    assert not follows(_staged(honest), P, {P: 20_000})
    row = honest.per_p[0]
    rows: list[dict[str, Any]] = [
        {"shares": [1.0, 0.01]},
        {"shares": [1.0, 0.10005]},
        {"shares": [1.0, float("nan")]},
        {"shares": [0.1, 1.0]},
        {"shares": [1.0]},
        {"shares_upper": [1.0, 0.1]},
        {"flops_per_syndrome": 1500},
        {"flops_upper": row.flops_per_syndrome},
        {"p": 0.5},
    ]
    forged = [_cascade(per_p=[row.model_copy(update=changes)]) for changes in rows]
    forged += [
        _cascade(worst_flops=40_000),
        _cascade(stage_flops=[1000, 20_000]),
        _cascade(per_p=[row, row]),
        _cascade(per_p=[]),
        _cascade(decoder_us_p99=5.0),
    ]
    told = [
        follows(CostCensus(flops_per_syndrome=5000, n_params=10, n_bytes=40, cascade=one), P, {P: 10_000})
        for one in forged
    ]
    assert told == [False] * len(forged)
    assert not follows(_staged(honest, 4000), P, {P: 10_000})


def test_a_cascade_is_compared_by_the_cost_of_its_stages_and_by_shares() -> None:
    def told(claim: CascadeCost, fresh: CascadeCost) -> list[str]:
        return list(costs_apart(_staged(claim), _staged(fresh), 0.9995))

    fresh = _cascade(10_000, 100_000)
    assert told(_cascade(1100), fresh) == [], "shares of other shots"
    assert told(_cascade(stage_flops=[1000, 41_000]), fresh) == [], (
        "and of a stage whose cost depends on them"
    )
    (share,) = told(_cascade(800), fresh)
    assert share == "claims that 0.08 of the shots at p = 0.01 reach stage 2, and 0.1 do"
    (later,) = told(_cascade(stage_flops=[1000, 32_000]), fresh)
    assert later == "claims 32000 FLOPs of stage 2, and 40000 are counted"
    (first,) = told(_cascade(stage_flops=[999, 40_000]), fresh)
    assert first == "claims 999 FLOPs of stage 1, and 1000 are counted"
    assert told(_cascade(stage_errors=[0.0, 1e9], stage_flops=[1000, 32_000]), fresh), (
        "errors of the claimant's own excuse nothing"
    )
    unstaged = CostCensus(flops_per_syndrome=5000, n_params=10, n_bytes=40)
    assert list(costs_apart(unstaged.model_copy(update={"flops_per_syndrome": 10}), _staged(fresh), 0.9995))


def test_a_count_that_depends_on_the_shots_is_compared_by_its_error() -> None:
    def told(claimed: int, **fresh: Any) -> list[str]:
        now = CostCensus(n_params=10, n_bytes=40, **{"flops_per_syndrome": 1000, **fresh})
        return list(costs_apart(CostCensus(flops_per_syndrome=claimed, n_params=10, n_bytes=40), now, 0.9995))

    assert told(1000) == []
    assert told(1001) == ["claims 1001 flops_per_syndrome, and 1000 are counted"]
    assert told(1200, flops_error=60.0) == []
    assert told(500, flops_error=60.0) == ["claims 500 flops_per_syndrome, and 1000 are counted"]
    assert told(300, flops_error=220.0) == [], "a few shots have most of the work"
    assert told(12, flops_error=220.0) == ["claims 12 flops_per_syndrome, and 1000 are counted"]
    staged = _cascade(stage_errors=[0.0, 10_000.0])
    (later,) = costs_apart(_staged(_cascade(stage_flops=[1000, 12])), _staged(staged), 0.9995)
    assert later == "claims 12 FLOPs of stage 2, and 40000 are counted"


def test_what_is_charged_for_cpu_time_is_a_timing_and_is_not_left_out() -> None:
    def cost(flops: int, counted: int | None) -> CostCensus:
        return CostCensus(
            flops_per_syndrome=flops, counted_flops_per_syndrome=counted, n_params=10, n_bytes=40
        )

    def told(claim: CostCensus, fresh: CostCensus) -> list[str]:
        return list(costs_apart(claim, fresh, 0.9995))

    fresh = cost(9000, 1000)
    assert told(cost(7000, 1000), fresh) == [], "another machine"
    assert told(cost(7000, None), fresh) == [], "a report of before had one figure"
    assert told(cost(1000, 1000), fresh) == ["claims 1000 flops_per_syndrome, and its CPU time is worth 9000"]
    assert told(cost(9000, 900), fresh) == ["claims 900 flops_per_syndrome, and 1000 are counted"]
    assert not follows(cost(900, 1000), P, {P: 10_000})
    staged = _cascade()
    dear = _staged(staged, 15_000).model_copy(update={"counted_flops_per_syndrome": 5000})
    assert told(dear, dear) == []
    assert told(_staged(staged), dear) == ["claims 5000 flops_per_syndrome, and its CPU time is worth 15000"]


def test_gains_over_other_decoders_are_compared_by_their_shots() -> None:
    def other(delta: float, shots: int) -> BaselineRow:
        ends = (delta - 0.001, delta + 0.001)
        return BaselineRow(p=P, name="belief_matching", shots=shots, ler=0.07, delta=delta, delta_ci=ends)

    table = PairedTable(100_000, 3000, 2000, 5000)
    fresh = _report(table, baselines=[other(0.0, 100_000)])
    for claimed, shots, is_apart in ((0.002, 100_000, False), (0.02, 100_000, True), (0.008, 5_000, False)):
        claim = _report(table, baselines=[other(claimed, shots)])
        assert bool(disagreements(claim, fresh, comparisons=4)) == is_apart


def _estimate(against: PairedTable, **facts: object) -> Estimate:
    """Against belief matching, whose rows `against` are, on 10,000 shots."""
    plain = paired_figures(PairedTable(10_000, 300, 200, 500), p=P, baseline="pymatching", level=LEVEL)
    best = paired_figures(against, p=P, baseline="belief_matching", level=LEVEL)
    given: dict[str, object] = {
        "bundle": "e" * 64,
        "interval_level": LEVEL,
        "strongest": "belief_matching",
        "delta_vs_strongest": best.delta,
        "delta_vs_strongest_ci": best.delta_ci,
        "shots_of_strongest": best.shots,
        "classical": [Against(**best.model_dump(), us_per_shot=30.0)],
        "us_per_shot": 500.0,
    }
    return Estimate(**{**plain.model_dump(), **given, **facts})  # type: ignore[arg-type]


def test_other_decoders_of_an_estimate_are_held_against_fresh_shots() -> None:
    table = PairedTable(10_000, 300, 200, 500)
    fresh = _report(table, estimate=_estimate(PairedTable(10_000, 100, 150, 550)))
    assert disagreements(fresh, fresh, comparisons=9) == []
    forged = _report(table, estimate=_estimate(PairedTable(10_000, 600, 50, 650)))
    assert any("gain of 0.055" in line for line in disagreements(forged, fresh, comparisons=9))


def test_a_classical_decoder_cannot_be_left_out() -> None:
    slow = BaselineRow(
        p=P, name="belief_matching", shots=10_000, ler=0.065, delta=-0.005, delta_ci=(-0.008, -0.002)
    )
    table = PairedTable(10_000, 300, 200, 500)
    honest = _estimate(PairedTable(10_000, 100, 150, 550))
    assert not honest.beats_classical
    assert honest.vs_strongest.baseline == "belief_matching"
    given = {"baselines": [slow], "baseline": "pymatching"}
    for forged, told in (
        (_estimate(PairedTable(10_000, 100, 150, 550), classical=[]), "other classical decoders"),
        (_estimate(PairedTable(10_000, 100, 150, 550), strongest="pymatching"), "strongest baseline"),
    ):
        assert not forged.beats_classical or forged.strongest == "pymatching"
        found = list(estimate_contradictions(_report(table, estimate=forged, **given), LEVEL, P))
        assert any(told in line for line in found)
    assert list(estimate_contradictions(_report(table, estimate=honest, **given), LEVEL, P)) == []
