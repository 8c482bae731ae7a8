"""The analyst: verdicts and words that the metrics support."""

from __future__ import annotations

import pytest

from autoqec.agents.schemas import AnalystResponse
from autoqec.agents.words_check import check_words
from autoqec.search.analyst import Analysis, analyse, fills_gap, findings

GAIN = {
    "status": "ok",
    "reference_p": 0.005,
    "ler_plain_classical": 0.0125,
    "ler_predecoder": 0.0080,
    "delta_ler": 0.0045,
    "delta_ler_ci_low": 0.0031,
    "delta_ler_ci_high": 0.0059,
    "flops_per_syndrome": 2_476_192,
    "n_params": 1983,
    "train_wallclock_s": 145.0,
    "train_batches_total": 585,
    "train_loss_initial": 0.60,
    "train_loss_mean_last_epoch": 0.45,
    "training_stopped": "all_steps",
    "training_kept_step": 432,
}
NULL = GAIN | {
    "ler_predecoder": 0.0121,
    "delta_ler": 0.0004,
    "delta_ler_ci_low": -0.0008,
    "delta_ler_ci_high": 0.0016,
}
MEMBER = {"delta_vs_baseline_holdout": 0.004, "flops_per_syndrome": 2_476_192, "n_params": 1983}


def response(**fields: str) -> AnalystResponse:
    words = {"summary_1line": "it gains", "verdict": "candidate", "next_hypothesis_seed": "more"}
    return AnalystResponse.model_validate(words | fields)


def test_a_significant_gain_is_a_candidate_and_its_line_has_the_figures():
    analysis = analyse(GAIN)
    assert analysis.verdict == "candidate"
    for figure in (
        "0.0125 -> 0.008",
        "p = 0.005",
        "[0.0031, 0.0059]",
        "ratio 1.56",
        "2.48 MFLOP",
        "1983 parameters",
    ):
        assert figure in analysis.summary_1line


@pytest.mark.parametrize(
    "change",
    [
        {"delta_ler_ci_low": 0.0},
        {"delta_ler_ci_low": -0.001},
        {"delta_ler_ci_low": None},
        {"status": "train_error"},
    ],
)
def test_without_a_significant_gain_a_round_is_ignored(change):
    assert analyse(GAIN | change).verdict == "ignore"


def test_a_cheap_round_with_an_unproven_gain_fills_a_gap_of_the_front():
    cheap = NULL | {"flops_per_syndrome": 20_000, "n_params": 5, "delta_ler": 0.002}
    assert analyse(cheap, [MEMBER]).verdict == "candidate"
    assert "gap" in analyse(cheap, [MEMBER]).summary_1line
    assert not fills_gap(cheap, [])
    assert not fills_gap(cheap | {"delta_ler": -0.002}, [MEMBER])
    assert not fills_gap(cheap | {"status": "killed_by_safety"}, [MEMBER])
    assert not fills_gap(NULL, [MEMBER])  # costs as much as a member that gains more
    assert not fills_gap(cheap, [MEMBER, MEMBER | {"flops_per_syndrome": 19_000, "n_params": 4}])


@pytest.mark.parametrize(
    ("metrics", "word"),
    [
        ({"status": "compile_error", "failure_kind": "config_invalid"}, "refused"),
        ({"status": "train_error", "failure_kind": "nan_loss"}, "learning_rate"),
        ({"status": "train_error", "failure_kind": "training_failed"}, "simplify"),
        ({"status": "killed_by_safety", "failure_kind": "memory_estimate"}, "batch_size"),
        ({"status": "killed_by_safety", "failure_kind": "out_of_memory"}, "batch_size"),
        ({"status": "killed_by_safety", "failure_kind": "wall_clock"}, "past its time"),
        ({"status": "killed_by_safety", "failure_kind": "interrupted"}, "killed before it ended"),
        ({"status": "compose_conflict"}, "different options"),
        (GAIN | {"over_budget": ["n_params 300000 > 200000"]}, "over budget"),
        (GAIN | {"training_kept_step": 0}, "untrained"),
        (NULL | {"train_loss_mean_last_epoch": 0.599}, "never moved"),
        (NULL, "loss moved but the LER did not"),
        (GAIN | {"training_stopped": "time_budget"}, "out of time"),
        (GAIN | {"train_batches_total": 0, "train_loss_initial": None}, "without any training"),
        (GAIN, "train it longer"),
        (NULL | {"train_loss_initial": None, "train_batches_total": 0}, "another type"),
    ],
)
def test_the_seed_names_what_stands_out(metrics, word):
    assert word in analyse(metrics).next_hypothesis_seed
    assert analyse(metrics).next_hypothesis_seed == next(findings(metrics))


@pytest.mark.parametrize(
    ("metrics", "word"),
    [
        ({"status": "compile_error", "status_reason": "the loss was NaN"}, "refused"),
        ({"status": "train_error", "status_reason": "the loss was NaN"}, "simplify"),
        ({"status": "killed_by_safety", "status_reason": "out of memory"}, "killed before it ended"),
    ],
)
def test_a_row_without_a_kind_is_judged_by_its_status_alone(metrics, word):
    assert word in analyse(metrics).next_hypothesis_seed


@pytest.mark.parametrize("summary", [
    "the LER falls by 36% from 0.0125 to 0.008, a ratio of 1.56",
    "delta is 0.0045 (0.0031 .. 0.0059) at 2.5M FLOPs and 1,983 params on surface_d5 with osd-10",
    "trained 145 s, 4.5e-3 lower",
    "no figures at all",
])  # fmt: skip
def test_words_with_figures_of_the_metrics_stay_as_they_are(summary):
    reply = response(summary_1line=summary)
    assert check_words(reply, GAIN) == Analysis(**reply.model_dump())


@pytest.mark.parametrize("summary", [
    "the LER falls by 50%",
    "a ratio of 2.1 at last",
    "delta is 0.0145",
    "only 900 parameters",
    "0.025 MFLOP",
])  # fmt: skip
def test_a_figure_without_support_is_replaced_and_recorded(summary):
    checked = check_words(response(summary_1line=summary), GAIN)
    assert checked.summary_1line == analyse(GAIN).summary_1line
    assert checked.next_hypothesis_seed == "more"
    assert len(checked.corrections) == 1
    assert "no metric supports" in checked.corrections[0]


@pytest.mark.parametrize(("verdict", "metrics"), [("candidate", NULL), ("ignore", GAIN)])
def test_a_verdict_that_the_metrics_do_not_give_is_corrected(verdict, metrics):
    checked = check_words(response(verdict=verdict), metrics)
    assert checked.verdict == analyse(metrics).verdict != verdict
    assert checked.corrections[0].startswith(f"verdict {verdict} -> ")
    assert checked.summary_1line == "it gains"


def test_a_seed_may_name_sizes_to_try_but_not_invent_measurements():
    tries = response(next_hypothesis_seed="try 12 iterations and a width of 32")
    assert check_words(tries, GAIN) == Analysis(**tries.model_dump())
    claims = response(next_hypothesis_seed="Since the gain was 80%, try 12 iterations")
    checked = check_words(claims, GAIN)
    assert checked.next_hypothesis_seed == next(findings(GAIN))
    assert "80%" in checked.corrections[0]


def test_figures_of_the_config_count_as_known():
    reply = response(summary_1line="8 iterations were enough")
    assert check_words(reply, GAIN).corrections
    assert not check_words(reply, GAIN, config={"neural_bp": {"iterations": 8}}).corrections
