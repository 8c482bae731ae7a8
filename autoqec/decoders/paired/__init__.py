"""Paired evaluation: one sampler, many decoders, the same shots."""

from autoqec.decoders.paired.evaluate import Evaluator
from autoqec.decoders.paired.result import PairCounts, PairedResult

__all__ = ["Evaluator", "PairCounts", "PairedResult"]
