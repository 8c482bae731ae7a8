"""What a candidate promises before it is trained: two of the three axes are known exactly, the third has neighbours.

The expected delta is a mean over earlier rounds: near ones count most, and any of the same type and output mode counts,
since these decide more than all other options. An imagined round at half of the best delta stands for what was not tried.
The promise is the hypervolume that a round with this delta and the counted costs would add to the significant gains so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.search.distance import distance
from autoqec.search.earlier_rounds import Round
from autoqec.search.feasibility import Estimate
from autoqec.stats.pareto import REFERENCE, volume

NEAR = 0.03
"""The distance at which a round's word counts for 1/e: half of one option of fifteen."""

FAMILY_WEIGHT = 0.5
UNSEEN_WEIGHT = 0.3
UNSEEN_SHARE = 0.5


def expected_delta(dsl: PredecoderDSL, rounds: Sequence[Round]) -> float:
    unseen = UNSEEN_SHARE * max((one.delta for one in rounds), default=0.0)
    weights = [_weight(dsl, one.dsl) for one in rounds]
    total = sum(weight * one.delta for weight, one in zip(weights, rounds, strict=True))
    return (total + UNSEEN_WEIGHT * max(unseen, 0.0)) / (sum(weights) + UNSEEN_WEIGHT)


def _weight(dsl: PredecoderDSL, earlier: PredecoderDSL) -> float:
    family = (dsl.type, dsl.output_mode) == (earlier.type, earlier.output_mode)
    return math.exp(-distance(dsl, earlier) / NEAR) + (FAMILY_WEIGHT if family else 0.0)


def promise(dsl: PredecoderDSL, costs: Estimate, rounds: Sequence[Round]) -> float:
    """In units of the hypervolume; 0 for what the front covers already."""
    boxes = [REFERENCE.box(one.delta, *one.costs) for one in rounds if one.delta_low > 0]
    mine = REFERENCE.box(expected_delta(dsl, rounds), costs.flops_per_syndrome or 0, costs.n_params or 0)
    return volume([*boxes, mine]) - volume(boxes)
