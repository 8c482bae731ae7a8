"""Untrained turbo propagation in front of ordered statistics: the classical decoder with what a turbo predecoder is given."""

from __future__ import annotations

from autoqec.decoders.baselines.registry import Baseline
from autoqec.decoders.protocol import Decoder
from autoqec.envs.problem import DecodingProblem

CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 4, "damping": "fixed", "turbo": {}},
}


def _build(problem: DecodingProblem, order: int) -> Decoder:
    import torch

    from autoqec.decoders.backends.osd import OsdBackend
    from autoqec.decoders.compiler import compile_predecoder
    from autoqec.decoders.dsl_schema import PredecoderDSL
    from autoqec.decoders.pipeline import PredecoderPipeline

    torch.set_num_threads(1)
    module = compile_predecoder(PredecoderDSL.model_validate(CONFIG), problem)
    return PredecoderPipeline(module, OsdBackend(problem, order))


ENTRY = Baseline(
    name="turbo",
    summary="untrained propagation on both halves by turns + ordered statistics on the observables'",
    build=_build,
    module="torch",
    distribution="autoqec",
    note="with the extra learn",
    needs_context=True,
    sees_context=True,
    has_order=True,
    fast=True,
)
