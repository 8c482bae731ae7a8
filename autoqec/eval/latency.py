"""The time of one shot at a time that people are shown: of a cascade that of the whole decoder, since no shot's time is that of its first stage."""

from __future__ import annotations

from typing import NamedTuple

from autoqec.eval.schema import CostCensus

MODEL, DECODER = "model alone", "whole decoder"


class OneShot(NamedTuple):
    """Microseconds, and of what. p999: of a cascade, whose dearest stage few shots reach."""

    p50: float | None
    p99: float | None
    of: str
    p999: float | None = None


def one_shot(cost: CostCensus) -> OneShot:
    if (found := cost.cascade) is not None:
        return OneShot(found.decoder_us_p50, found.decoder_us_p99, DECODER, found.decoder_us_p999)
    return OneShot(cost.latency_us_p50, cost.latency_us_p99, MODEL)
