"""A cascade on the trusted side: as the decoder in use decides, without a backend that decodes a shot twice for one answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autoqec.decoders.answers import AnswerDecoder, ClassicalDecider, Kind
from autoqec.decoders.backends import make_backend
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.gates import I64
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.decoders.protocol import Confident
from autoqec.decoders.pruned_sweep import PrunedSweep
from autoqec.envs.environment import Environment
from autoqec.envs.problem import U8
from autoqec.eval.stage_census import FEWEST, _with_decider, reaching
from autoqec.eval.staged_answers import Answers, predicted, through_gates
from autoqec.sandbox.worker import FlopClaim

P, SHOTS = 0.01, 400
DSL = {
    "type": "cascade",
    "output_mode": "soft_priors",
    "stages": [
        {"type": "neural_bp", "neural_bp": {"iterations": 1}},
        {"type": "neural_bp", "neural_bp": {"iterations": 3}, "share": 0.1},
    ],
}


class Counting(AnswerDecoder):
    """Matching that notes how many shots it decodes."""

    decoded = 0

    def predict(self, kind: Kind, answers: npt.NDArray[Any], detectors: U8) -> U8:
        self.decoded += len(detectors)
        return super().predict(kind, answers, detectors)

    def predict_with_confidence(self, kind: Kind, answers: npt.NDArray[Any], detectors: U8) -> Confident:
        self.decoded += len(detectors)
        return super().predict_with_confidence(kind, answers, detectors)


@pytest.mark.parametrize("mute", [False, True], ids=["all answer", "the last stage fails"])
def test_every_stage_decodes_its_shots_once(env: Environment, mute: bool) -> None:
    problem = env.problem(P)
    backend = make_backend(problem, "mwpm")
    pipeline = PredecoderPipeline(compile_predecoder(PredecoderDSL.model_validate(DSL), problem), backend)
    detectors = env.sampler(P).sample(SHOTS, 8).detectors
    deciders = [Counting(backend), Counting(backend)]

    def ask(stage: int, rows: I64, earlier: npt.NDArray[Any] | None) -> Answers:
        kind, raw = pipeline.answers(detectors[rows], stage, earlier)
        return Answers(raw, np.full(len(rows), not (mute and stage == 1)), 0.0, kind)

    answers = through_gates(ask, deciders, pipeline.gates.thresholds, detectors)
    found = predicted(answers, deciders, detectors)
    assert answers.stage is not None
    later = int((answers.stage == 1).sum())
    assert 0 < later < SHOTS
    assert [decider.decoded for decider in deciders] == [SHOTS, later]
    in_use = pipeline.staged(detectors)
    assert (answers.stage == in_use.stage).all()
    assert (found == in_use.predictions).all()
    assert answers.valid.sum() == (SHOTS - later if mute else SHOTS)


def test_a_sweep_is_counted_with_an_error(env: Environment) -> None:
    """Its work depends on the shot: another count of the same checkpoint, as by whoever checks a package, is another one."""
    backend = make_backend(env.problem(P), "mwpm")
    shots = env.sampler(P).sample(4 * 64, 5).detectors
    found = [
        _with_decider(
            FlopClaim(0, 0, 0, 0.0), ClassicalDecider(backend, PrunedSweep(backend.problem, 16)), some
        )
        for some in np.split(shots, 4)
    ]
    means = [claim.mean for claim in found]
    assert len({*means}) > 1
    assert all(max(means) - min(means) < 4 * claim.spread * claim.mean for claim in found)
    plain = FlopClaim(1000, 0, 0, 0.0)
    assert _with_decider(plain, AnswerDecoder(backend), shots[:64]) == plain


def test_a_stage_that_hardly_any_shot_reaches_is_counted_on_the_nearest() -> None:
    sure = np.array([9.0, 1.0, np.inf, *np.linspace(3.0, 4.0, 4 * FEWEST), 2.0])
    last = len(sure) - 1
    assert len(reaching(sure, 2.5)) == FEWEST
    assert {1, last} <= {*reaching(sure, 2.5).tolist()}
    assert sorted(sure[reaching(sure, 2.5)]) == sorted(sure)[:FEWEST]
    some = np.concatenate([np.full(2 * FEWEST + 3, 1.0), np.full(500, np.inf)])
    assert len(reaching(some, 2.5)) == 2 * FEWEST + 3, "no shot besides that the stage is never asked"
    through = reaching(sure, 3.5).tolist()
    assert through == [1, *range(3, 3 + 2 * FEWEST), last], "those that the gate lets through, in order"
