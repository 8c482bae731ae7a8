"""Many attempts of propagation with ordered statistics on both halves: against the lightest of all sets of faults, and as the last stage of a cascade."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from autoqec.decoders.answers import AnswerDecoder
from autoqec.decoders.backends import make_backend
from autoqec.decoders.baselines.registry import DecoderChoice, choose, unavailable
from autoqec.decoders.classical_stages import classical_stage
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.cost import measure
from autoqec.decoders.dsl_schema import USUAL_LEGS, PredecoderDSL
from autoqec.decoders.gates import EXPLAINED, Gates
from autoqec.decoders.joint_legs import AGREE, EXCHANGES, JointLegs
from autoqec.decoders.onnx_stages import about_stage
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.decoders.stage_cost import FEWEST
from autoqec.envs.load import load_env
from autoqec.envs.packing import pack, unpack
from autoqec.envs.problem import U8, DecodingProblem, log_odds
from autoqec.errors import InputError
from autoqec.runner.stages import set_threshold
from tests.decoders.both_halves import with_both_halves

P, SHOTS, LEGS = 0.005, 4000, 6
FIRST = {"type": "neural_bp", "neural_bp": {"iterations": 2, "damping": "fixed", "turbo": {"exchanges": 2}}}
LAST = {"type": "joint_legs", "legs": LEGS, "share": 0.2}


@pytest.fixture(scope="module")
def problem() -> DecodingProblem:
    return with_both_halves(p=[P]).problem(P)


@pytest.fixture(scope="module")
def shots() -> tuple[U8, U8]:
    drawn = with_both_halves(p=[P]).sampler(P).sample(SHOTS, 3)
    return drawn.detectors, drawn.observables


def lightest_of_all(problem: DecodingProblem) -> dict[bytes, tuple[float, float, bytes]]:
    """Of each syndrome that up to four faults make: the weight of the lightest set of faults, that of the lightest of another class, and its class.

    Symptoms by fewer faults are lighter here, since all priors are small: sets of four are enough for syndromes of up to two.
    """
    joint = problem.joint
    assert joint is not None
    rows = np.concatenate([joint.h.toarray().T, joint.l.toarray().T], axis=1).astype(np.uint8)
    weights = log_odds(joint.priors)
    reached: dict[bytes, float] = {np.zeros(rows.shape[1], np.uint8).tobytes(): 0.0}
    edge = dict(reached)
    for _ in range(4):
        further: dict[bytes, float] = {}
        for key, weight in edge.items():
            sums = np.frombuffer(key, np.uint8) ^ rows
            for fault in range(len(rows)):
                found, total = sums[fault].tobytes(), weight + weights[fault]
                if total < min(further.get(found, np.inf), reached.get(found, np.inf)):
                    further[found] = total
        edge = dict(sorted(further.items(), key=lambda item: item[1])[:6000])
        reached |= edge
    best: dict[bytes, tuple[float, float, bytes]] = {}
    for key, weight in sorted(reached.items(), key=lambda item: item[1]):
        syndrome, flips = key[: problem.n_checks], key[problem.n_checks :]
        if syndrome not in best:
            best[syndrome] = weight, np.inf, flips
        elif best[syndrome][1] == np.inf and flips != best[syndrome][2]:
            best[syndrome] = (best[syndrome][0], weight, best[syndrome][2])
    return best


def test_it_finds_the_lightest_set_of_all_faults(problem: DecodingProblem, shots: tuple[U8, U8]) -> None:
    known = lightest_of_all(problem)
    detectors = unpack(shots[0], problem.n_checks)
    rows = [row for row in np.unique(detectors, axis=0) if row.tobytes() in known][:400]
    assert len(rows) > 60
    found = JointLegs(problem, LEGS).decode_with_confidence(pack(np.array(rows)))
    flips = unpack(found.predictions, problem.n_observables)
    right = ties = 0
    for row, flipped, margin in zip(rows, flips, found.log_odds, strict=True):
        weight, other, best = known[row.tobytes()]
        if other - weight < 1e-6:
            ties += 1
            continue
        right += flipped.tobytes() == best
        assert margin >= -1e-6, "the lightest solution that was found counts"
    assert right >= 0.99 * (len(rows) - ties)


def test_a_decoder_is_a_function_of_the_shot(problem: DecodingProblem, shots: tuple[U8, U8]) -> None:
    """Whatever stands beside it, with or without the log-odds of the answer."""
    decoder, detectors = JointLegs(problem, 3), shots[0][:200]
    whole = decoder.decode_with_confidence(detectors)
    assert (decoder.decode(detectors) == whole.predictions).all()
    parts = [decoder.decode_with_confidence(part) for part in np.split(detectors, [7, 90])]
    assert (np.concatenate([part.predictions for part in parts]) == whole.predictions).all()
    np.testing.assert_allclose(
        np.concatenate([part.log_odds for part in parts]), whole.log_odds, rtol=1e-4, atol=1e-3
    )
    assert (whole.log_odds[np.isfinite(whole.log_odds)] > -1e-6).all()


def test_shots_that_fail_are_less_sure(problem: DecodingProblem, shots: tuple[U8, U8]) -> None:
    found = JointLegs(problem, LEGS).decode_with_confidence(shots[0])
    failed = (found.predictions != shots[1]).any(axis=1)
    assert np.median(found.log_odds[failed]) < np.median(found.log_odds[~failed]) / 2


def test_no_shots_and_a_quiet_one(problem: DecodingProblem) -> None:
    decoder = JointLegs(problem, 2)
    none = decoder.decode_with_confidence(
        np.zeros((0, problem.n_checks // 8 + 1), np.uint8)[:, : (problem.n_checks + 7) // 8]
    )
    assert none.predictions.shape[0] == len(none.log_odds) == 0
    quiet = decoder.decode_with_confidence(np.zeros((1, (problem.n_checks + 7) // 8), np.uint8))
    assert not quiet.predictions.any()
    assert quiet.log_odds[0] > 0


def test_work_is_counted_by_what_was_done(problem: DecodingProblem, shots: tuple[U8, U8]) -> None:
    few, many = (JointLegs(problem, legs) for legs in (1, 12))
    detectors = shots[0][:64]
    assert few.flops(detectors) < many.flops(detectors)
    once, quiet = few._decoded(detectors), few.flops(np.zeros_like(detectors))
    assert once.attempts == 2 * len(detectors), "two attempts cannot agree three times"
    assert len(detectors) * 2 <= once.exchanges <= len(detectors) * 2 * EXCHANGES
    stopped = many._decoded(np.zeros_like(detectors))
    assert stopped.attempts == AGREE * len(detectors), (
        "a shot without events is done when enough attempts agree"
    )
    assert quiet < few.flops(detectors)


@pytest.mark.parametrize("legs", [0, 10_001])
def test_a_number_that_cannot_be_is_refused(problem: DecodingProblem, legs: int) -> None:
    with pytest.raises(InputError, match="between 1 and 10000 legs"):
        JointLegs(problem, legs)


def test_it_needs_both_halves() -> None:
    half = with_both_halves("observable", p=[P]).problem(P)
    assert "observable_with_context" in str(unavailable(DecoderChoice("joint_legs", 2), half))
    with pytest.raises(InputError, match="one half"):
        JointLegs(half)
    assert [one.name for one in choose(["joint_legs", "joint_legs-8"], (0, 10), where="here")] == [
        f"joint_legs-{USUAL_LEGS}",
        "joint_legs-8",
    ]


def cascade(**last: object) -> PredecoderDSL:
    config = {"type": "cascade", "output_mode": "soft_priors", "stages": [FIRST, {**LAST, **last}]}
    return PredecoderDSL.model_validate({**config, "training": {"epochs": 0}})


def test_as_a_last_stage_they_decide_what_is_unexplained(
    problem: DecodingProblem, shots: tuple[U8, U8]
) -> None:
    detectors, _ = shots
    backend = make_backend(problem, "osd")
    module = compile_predecoder(cascade(), problem)
    module.thresholds.fill_(1e30)
    found = PredecoderPipeline(module, backend).staged(detectors)
    first = PredecoderPipeline(module.stages[0], backend).decode(detectors)
    alone = JointLegs(problem, LEGS).decode(detectors)
    syndrome = torch.from_numpy(unpack(detectors, problem.n_checks)).float()
    with torch.no_grad():
        priors = module.stages[0].fault_probabilities(syndrome, context(problem)).numpy()
    is_open = AnswerDecoder(backend)._unexplained(priors, detectors)
    last = found.stage == 1
    assert 0 < last.sum() < SHOTS
    assert (last == is_open).all()
    assert (found.predictions[last] == alone[last]).all()
    assert (found.predictions[~last] == first[~last]).all()
    assert PredecoderPipeline(module, backend).reached(detectors) == (SHOTS, int(last.sum()))


def test_unsure_shots_come_after_all_unexplained_ones(problem: DecodingProblem, shots: tuple[U8, U8]) -> None:
    detectors, _ = shots
    backend = make_backend(problem, "osd")
    goes_on = []
    for share in (0.05, 0.5):
        module = compile_predecoder(cascade(takes="unsure", share=share), problem)
        module.active = 1
        sure = PredecoderPipeline(module, backend).staged(detectors, sure_of_all=True).sure
        set_threshold(module, backend, detectors, torch.device("cpu"), share)
        module.active = 2
        found = PredecoderPipeline(module, backend).staged(detectors)
        goes_on.append(found.stage == 1)
        assert 0.8 * share < goes_on[-1].mean() <= share, "shots that are as sure as others stay with them"
        assert sure[goes_on[-1]].max() < sure[~goes_on[-1]].min()
    unexplained = sure < -EXPLAINED / 4
    few, many = goes_on
    assert few.sum() < unexplained.sum() < many.sum()
    assert (few <= unexplained).all()
    assert (unexplained <= many).all()


def test_their_cost_depends_on_the_share(problem: DecodingProblem) -> None:
    costs = [
        measure(compile_predecoder(cascade(**last), problem), problem)
        for last in (
            {"share": 0.1},
            {"share": 0.2},
            {"share": 0.2, "legs": 1},
            {"share": 0.2, "takes": "unsure"},
        )
    ]
    stages = [cost.stage_flops for cost in costs]
    for cost, share in zip(costs, (0.1, 0.2, 0.2, 0.2), strict=True):
        assert cost.flops_per_syndrome == pytest.approx(
            cost.stage_flops[0] + share * cost.stage_flops[1], rel=1e-3
        )
    assert stages[1][1] > stages[2][1]
    assert all(stage[1] > 0 for stage in stages)
    assert FEWEST <= 16


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([FIRST, {"type": "joint_legs", "share": 0.1}], "needs legs"),
        ([{**LAST, "share": None}, FIRST], "is the last one"),
        ([FIRST, {**LAST, "order": 4}], "has no order"),
        ([FIRST, {**LAST, "states": 4}], "states belongs to a stage of type 'sweep'"),
        ([FIRST, {**FIRST, "share": 0.1, "legs": 4}], "legs belongs to a stage of type 'joint_legs'"),
        ([{**FIRST, "takes": "unsure"}, LAST], "the first stage has no takes"),
        ([FIRST, {**LAST, "takes": "all"}], "'unexplained' or 'unsure'"),
    ],
)
def test_configs_that_make_no_sense_are_refused(stages: list[dict[str, object]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PredecoderDSL.model_validate({"type": "cascade", "output_mode": "soft_priors", "stages": stages})


def test_takes_is_about_ordered_statistics() -> None:
    with pytest.raises(InputError, match="the least sure"):
        Gates((1.0,), (None, None), lets=("unsure", None)).check("mwpm")
    with pytest.raises(InputError, match="unexplained or unsure"):
        Gates((1.0,), (None, None), lets=("others", None)).check("osd")
    narrow = load_env("surface_d3_depol").problem(0.01)
    with pytest.raises(InputError, match="one half"):
        classical_stage(narrow, Gates((1.0,), (None, None), legs=(None, 3)), 1)


def test_a_file_of_a_stage_says_what_it_takes(tmp_path) -> None:  # type: ignore[no-untyped-def]
    gates = Gates((1.5,), (None, None), legs=(None, 8), lets=("unsure", None))
    first, last = (
        about_stage(at, gates, "osd", sees_earlier=bool(at), path=tmp_path / "m.onnx") for at in (0, 1)
    )
    assert "margin of the best candidates" in first["gate"]
    assert "unexplained" in first["gate"]
    assert (first["stage_lets"], last["stage_legs"]) == ("unsure", "8")
    assert "stage_lets" not in last
