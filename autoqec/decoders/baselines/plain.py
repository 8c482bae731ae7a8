"""PyMatching: minimum-weight perfect matching with the model's fixed weights."""

from __future__ import annotations

from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.decoders.baselines.registry import Baseline

ENTRY = Baseline(
    name="pymatching",
    summary="minimum-weight perfect matching (Higgott and Gidney 2023)",
    build=lambda problem, _order: MatchingBackend(problem),
    module="pymatching",
    distribution="pymatching",
    needs_graph=True,
    fast=True,
)
