"""The front: all that nothing dominates, the same whatever comes first, and only verified rounds on it."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoqec.errors import InputError
from autoqec.eval.pareto import (
    Archive,
    Origin,
    ParetoRow,
    add,
    archive_of,
    best_of,
    front,
    hypervolume,
    hypervolume_by_round,
    row_of,
)
from autoqec.eval.schema import CostCensus, Estimate, VerifyReport
from autoqec.stats.intervals import paired_difference
from autoqec.stats.pareto import REFERENCE, dominates, volume
from autoqec.stats.target import check_target


def make(delta: float, half: float, flops: int, params: int, number: int = 1, **changes: Any) -> ParetoRow:
    fields: dict[str, Any] = {
        "round_attempt_id": f"attempt-{number}",
        "commit_sha": f"{number:040x}",
        "branch": f"exp/run/{number:02d}-x",
        "delta_vs_baseline_holdout": delta,
        "delta_ci": (delta - half, delta + half),
        "paired_eval_bundle_id": f"bundle-{number}",
        "flops_per_syndrome": flops,
        "n_params": params,
        "verdict": "VERIFIED",
        "round": number,
    }
    return ParetoRow(**{**fields, **changes})


@st.composite
def rows(draw: st.DrawFn) -> list[ParetoRow]:
    """Few values per axis, so that ties and dominance are common."""
    shapes = draw(
        st.lists(
            st.tuples(
                st.integers(1, 12), st.sampled_from([0.1, 1.0, 3.0]), st.integers(0, 4), st.integers(0, 4)
            ),
            max_size=14,
        )
    )
    return [
        make(delta * 1e-3, half * 1e-3, 10**flops, 10**params, number)
        for number, (delta, half, flops, params) in enumerate(shapes, start=1)
    ]


def brute_force(candidates: list[ParetoRow]) -> tuple[set[str], set[str]]:
    """Commits of the rows that no other beats, and of the others that none beats beyond both intervals."""

    def beaten(row: ParetoRow, *, clearly: bool) -> bool:
        for other in candidates:
            more = other.delta_vs_baseline_holdout - row.delta_vs_baseline_holdout
            less = (row.flops_per_syndrome - other.flops_per_syndrome, row.n_params - other.n_params)
            apart = other.delta_ci[0] > row.delta_ci[1]
            if more >= 0 and min(less) >= 0 and (apart if clearly else (more, *less) != (0, 0, 0)):
                return True
        return False

    members = {row.commit_sha for row in candidates if not beaten(row, clearly=False)}
    noise = {row.commit_sha for row in candidates if not beaten(row, clearly=True)} - members
    return members, noise


@given(rows(), st.randoms())
def test_one_by_one_in_any_order_gives_the_brute_force_front(
    candidates: list[ParetoRow], random: Any
) -> None:
    members, noise = brute_force(candidates)
    assert {row.commit_sha for row in front(candidates)} == members
    shuffled = list(candidates)
    random.shuffle(shuffled)
    archive = Archive()
    for row in shuffled:
        archive, admission = add(archive, row)
        assert admission.entered == (row in archive.front)
        assert not set(map(id, admission.left)) & set(map(id, archive.front))
    assert {row.commit_sha for row in archive.front} == members
    assert {row.commit_sha for row in archive.within_noise} == noise
    assert sorted(row.commit_sha for row in archive.rows) == sorted(row.commit_sha for row in candidates)
    deltas = [row.delta_vs_baseline_holdout for row in archive.front]
    assert deltas == sorted(deltas, reverse=True)


@given(rows())
def test_dominance_is_a_strict_partial_order(candidates: list[ParetoRow]) -> None:
    points = [row.axes for row in candidates]
    for a, b in itertools.product(points, repeat=2):
        assert not (dominates(a, b) and dominates(b, a))
    for a, b, c in itertools.product(points[:6], repeat=3):
        if dominates(a, b) and dominates(b, c):
            assert dominates(a, c)


@given(rows())
def test_the_front_carries_the_hypervolume_of_all(candidates: list[ParetoRow]) -> None:
    assert hypervolume(front(candidates)) == pytest.approx(hypervolume(candidates), abs=1e-12)


def test_a_round_that_another_beats_on_all_axes_leaves_however_wide_the_intervals() -> None:
    archive, _ = add(Archive(), make(2e-3, 5e-4, 10**6, 1000, 1))
    archive, admission = add(archive, make(2.5e-3, 5e-4, 10**5, 100, 2))
    assert [row.round for row in admission.left] == [1]
    assert [row.round for row in archive.front] == [2]
    assert [row.round for row in archive.within_noise] == [1]
    archive, admission = add(archive, make(4e-3, 5e-4, 10**5, 100, 3))
    assert [row.round for row in archive.front] == [3]
    assert [row.round for row in archive.dominated] == [2, 1]
    archive, admission = add(archive, make(3.5e-3, 5e-4, 10**5, 100, 4))
    assert not admission.entered
    assert "dominated by round 3" in admission.reason
    assert admission.reason.endswith("within the noise")
    archive, admission = add(archive, make(1e-3, 5e-4, 10**5, 99, 5))
    assert admission.entered  # one parameter less
    assert ([row.round for row in archive.front], [row.round for row in archive.within_noise]) == (
        [3, 5],
        [4],
    )


def test_two_rounds_at_the_same_point_are_both_members() -> None:
    twins = [make(2e-3, 5e-4, 10**6, 1000, number) for number in (1, 2)]
    assert list(archive_of(twins).front) == twins


@pytest.mark.parametrize(
    ("again", "what"),
    [
        ({"commit_sha": f"{1:040x}"}, "commit"),
        ({"checkpoint_sha256": "c1"}, "checkpoint"),
        ({"config_sha256": "d1", "train_seed": 0}, "config and training seed"),
    ],
)
def test_the_same_predecoder_gets_no_second_chance(again: dict[str, Any], what: str) -> None:
    first = make(2e-3, 5e-4, 10**6, 1000, 1, checkpoint_sha256="c1", config_sha256="d1", train_seed=0)
    archive, _ = add(Archive(), first)
    after, admission = add(archive, make(9e-3, 5e-4, 10, 1, 2, **again))
    assert after == archive
    assert not admission.entered
    assert admission.reason == f"same {what} as round 1 ({first.commit_sha[:8]})"
    _, other_seed = add(archive, make(9e-3, 5e-4, 10, 1, 2, config_sha256="d1", train_seed=1))
    assert other_seed.entered


def _report(**changes: Any) -> VerifyReport:
    fields: dict[str, Any] = {
        "verdict": "VERIFIED",
        "ler_holdout": 0.01,
        "ler_holdout_ci": (0.009, 0.011),
        "delta_ler_holdout": 0.002,
        "ler_shuffled": 0.05,
        "ablation_sanity_ok": True,
        "holdout_seeds_used": [9000],
        "seed_leakage_check_ok": True,
        "notes": "",
        "branch": "exp/run/01-x",
        "commit_sha": "a" * 40,
        "delta_vs_baseline_holdout": 0.002,
        "paired_eval_bundle_id": "bundle",
        "delta_ler_ci_low": 0.001,
        "delta_ler_ci_high": 0.003,
        "cost": COST,
    }
    return VerifyReport(**{**fields, **changes})


def _row(report: VerifyReport, **changes: Any) -> ParetoRow:
    return row_of(report, Origin(**{"round": 1, "round_attempt_id": "attempt", **changes}))


COST = CostCensus(flops_per_syndrome=1000, n_params=10, n_bytes=40)
ESTIMATE = Estimate(
    bundle="estimate",
    p=0.01,
    shots=10_000,
    interval_level=0.95,
    baseline="pymatching",
    ler_baseline=0.012,
    ler_baseline_ci=(0.01, 0.014),
    ler_candidate=0.011,
    ler_candidate_ci=(0.009, 0.013),
    delta=0.001,
    delta_ci=paired_difference(40, 30, 10_000, 0.95),
    ratio=12 / 11,
    ratio_ci=(0.9, 1.2),
    b=40,
    c=30,
    both=80,
    strongest="pymatching",
    delta_vs_strongest=0.001,
    delta_vs_strongest_ci=(0.0, 0.002),
    shots_of_strongest=10_000,
)


def test_a_row_quotes_the_estimate_and_is_chosen_by_the_test() -> None:
    """The gain of the test was large when the test stopped: it may choose, and is not the one to quote."""
    row = _row(_report(estimate=ESTIMATE))
    assert (row.delta_vs_baseline_holdout, row.paired_eval_bundle_id) == (0.001, "estimate")
    assert (row.delta_of_test, row.test_bundle_id) == (0.002, "bundle")
    kind, other = _row(_report(estimate=ESTIMATE)), make(0.0015, 0.001, 1000, 10, 2)
    assert best_of([kind, other]) is kind
    assert best_of([]) is None
    with pytest.raises(InputError, match=r"shots of the estimate is -0\.001"):
        _row(_report(estimate=ESTIMATE.model_copy(update={"delta": -0.001})))


def test_intervals_hold_for_all_verified_rounds_at_once() -> None:
    alone = archive_of([_row(_report(estimate=ESTIMATE))]).front[0]
    assert alone.delta_ci == paired_difference(40, 30, 10_000, 0.95)
    archive = Archive()
    for number in range(1, 6):
        row = _row(_report(estimate=ESTIMATE, commit_sha=f"{number:040x}"), round=number)
        archive, admission = add(archive, row)
        assert admission.entered
        archive, admission = add(archive, row)  # a process that was killed before it could say so
        assert admission.entered
    assert {row.delta_ci for row in archive.rows} == {paired_difference(40, 30, 10_000, 0.99)}
    assert {row.intervals_over for row in archive.rows} == {5}


def test_a_verified_committed_round_gets_a_row() -> None:
    row = _row(_report(), fork_from=["a", "b"], fork_from_canonical="a|b", compose_mode="pure")
    assert row.delta_vs_baseline_holdout == 0.002
    assert ParetoRow.model_validate_json(row.model_dump_json()) == row


@pytest.mark.parametrize(
    ("report", "row", "why"),
    [
        ({"verdict": "SUSPICIOUS"}, {}, "its verdict is SUSPICIOUS, not VERIFIED"),
        ({"verdict": "FAILED"}, {}, "its verdict is FAILED"),
        ({"commit_sha": None, "branch": None}, {}, "no commit_sha"),
        ({"paired_eval_bundle_id": None}, {}, "no paired_eval_bundle_id"),
        ({"delta_vs_baseline_holdout": None}, {}, "no delta_vs_baseline_holdout"),
        ({"cost": None}, {}, "flops_per_syndrome is not known"),
        ({"delta_ler_ci_low": None}, {}, "no interval"),
        ({}, {"round_attempt_id": None}, "no round_attempt_id"),
        ({"commit_sha": "main"}, {}, "commit_sha"),
        ({"commit_sha": "0" * 40}, {}, "null id"),
        ({"delta_vs_baseline_holdout": -0.002}, {}, "its gain on the shots of the test"),
        ({"delta_ler_ci_low": 0.0025}, {}, "must hold delta_vs_baseline_holdout"),
        ({"delta_ler_ci_low": 0.002, "delta_ler_ci_high": 0.002}, {}, "have a width"),
    ],
)
def test_a_refusal_says_why(report: dict[str, Any], row: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError) as caught:
        _row(_report(**report), **row)
    assert why in str(caught.value)
    assert "round 1" in str(caught.value)


@pytest.mark.parametrize(("failures", "expected"), [(0, True), (9, None), (90, False), (None, None)])
def test_a_row_says_whether_the_target_is_reached_only_where_that_is_known(
    failures: int | None, expected: bool | None
) -> None:
    counts = {} if failures is None else {1e-3: (failures, 100_000)}
    target = check_target(counts, target_ler=1e-4, target_p=1e-3, level=0.95)
    row = _row(_report(target=target))
    assert row.target_reached is expected
    assert row.model_dump().get("target_reached") is expected
    assert ("target_reached" in row.model_dump(mode="json")) is (expected is not None)
    assert ParetoRow(**row.model_dump()) == row


def test_the_volume_of_known_boxes() -> None:
    assert volume([]) == 0
    assert volume([(2, 3, 4)]) == 24
    assert volume([(2, 3, 4), (1, 1, 1), (2, 3, 4)]) == 24
    assert volume([(3, 1, 1), (1, 3, 1), (1, 1, 3)]) == 7
    assert volume([(1, 1, 1), (-1, 5, 5), (5, 0, 5)]) == 1


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 3), max_size=9))
def test_the_volume_is_that_of_the_unit_cells_covered(corners: list[tuple[int, int, int]]) -> None:
    grid = np.zeros((6, 6, 6), dtype=bool)
    for x, y, z in corners:
        grid[:x, :y, :z] = True
    assert volume([(float(x), float(y), float(z)) for x, y, z in corners]) == pytest.approx(grid.sum())


def test_the_hypervolume_counts_decades_below_the_reference() -> None:
    row = make(2e-3, 1e-4, REFERENCE.flops_per_syndrome // 100, REFERENCE.n_params // 1000)
    assert hypervolume([row]) == pytest.approx(2e-3 * 2 * 3)
    assert hypervolume([make(2e-3, 1e-4, 10 * REFERENCE.flops_per_syndrome, 0)]) == 0
    free = hypervolume([make(2e-3, 1e-4, 0, 0)])
    assert free == pytest.approx(
        2e-3 * math.log10(REFERENCE.flops_per_syndrome) * math.log10(REFERENCE.n_params)
    )


@given(rows())
def test_the_hypervolume_never_falls_from_round_to_round(candidates: list[ParetoRow]) -> None:
    trail = hypervolume_by_round(candidates)
    values = [value for _, value in trail]
    assert all(later >= earlier - 1e-12 for earlier, later in itertools.pairwise(values))
    if values:
        assert values[-1] == pytest.approx(hypervolume(front(candidates)), abs=1e-12)
