"""Tesseract: best-first search for the most likely fault set; near optimal, milliseconds per shot."""

from __future__ import annotations

import stim

from autoqec.decoders.baselines.registry import Baseline
from autoqec.envs.packing import checked
from autoqec.envs.problem import U8, DecodingProblem


class Tesseract:
    def __init__(self, problem: DecodingProblem) -> None:
        from tesseract_decoder import tesseract_sinter_compat

        self._n_checks = problem.n_checks
        decoders = tesseract_sinter_compat.make_tesseract_sinter_decoders_dict()
        self._decoder = decoders["tesseract"].compile_decoder_for_dem(
            dem=stim.DetectorErrorModel(problem.dem)
        )

    def decode(self, detectors: U8) -> U8:
        packed = checked(detectors, self._n_checks, what="detectors")
        predictions: U8 = self._decoder.decode_shots_bit_packed(bit_packed_detection_event_data=packed)
        return predictions


ENTRY = Baseline(
    name="tesseract",
    summary="most-likely-error search (Beni, Higgott, Shutty 2025)",
    build=lambda problem, _order: Tesseract(problem),
    module="tesseract_decoder",
    distribution="tesseract-decoder",
    sees_context=True,
    note="add --pre; wheels need Python 3.11 or later, on x86_64 or macOS",
)
