"""BP+OSD, one decoder for each reported order."""

from __future__ import annotations

from autoqec.decoders.backends.bp_osd import BpOsd
from autoqec.decoders.baselines.registry import Baseline

ENTRY = Baseline(
    name="bposd",
    summary="belief propagation + ordered statistics (Panteleev and Kalachev; Roffe et al.)",
    build=BpOsd,
    module="ldpc",
    distribution="ldpc",
    has_order=True,
)
