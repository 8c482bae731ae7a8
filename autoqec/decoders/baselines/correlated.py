"""PyMatching with correlations: a second pass reweights edges by the first. Its flag is needed twice."""

from __future__ import annotations

import pymatching
import stim

from autoqec.decoders.baselines.registry import Baseline
from autoqec.envs.packing import checked
from autoqec.envs.problem import U8, DecodingProblem


class CorrelatedMatching:
    def __init__(self, problem: DecodingProblem) -> None:
        self._n_checks = problem.n_checks
        self._matching = pymatching.Matching.from_detector_error_model(
            stim.DetectorErrorModel(problem.dem), enable_correlations=True
        )

    def decode(self, detectors: U8) -> U8:
        predictions: U8 = self._matching.decode_batch(
            checked(detectors, self._n_checks, what="detectors"),
            bit_packed_shots=True,
            bit_packed_predictions=True,
            enable_correlations=True,
        )
        return predictions


def _too_likely(problem: DecodingProblem) -> str | None:
    largest = float(problem.priors.max(initial=0.0))
    return (
        f"a fault has probability {largest:g}, and correlated matching takes none above 0.5"
        if largest > 0.5
        else None
    )


ENTRY = Baseline(
    name="pymatching_correlated",
    summary="two-pass correlated matching",
    build=lambda problem, _order: CorrelatedMatching(problem),
    module="pymatching",
    distribution="pymatching",
    needs_graph=True,
    refuses=_too_likely,
    fast=True,
)
