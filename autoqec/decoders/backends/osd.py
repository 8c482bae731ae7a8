"""The `osd` backend: BP+OSD with the environment's priors, and ordered statistics on reliabilities per shot."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from autoqec.decoders.backends.bp_osd import BpOsd
from autoqec.decoders.backends.edge_weights import checked_log_odds
from autoqec.decoders.backends.ordered_statistics import OrderedStatistics
from autoqec.decoders.protocol import Confident
from autoqec.envs.problem import F64, U8, DecodingProblem, log_odds


class OsdBackend:
    """Ordered statistics of a given order (0: OSD-0, above: combination sweep).

    With per-shot priors the predecoder's posteriors order the faults; no belief propagation runs in between.
    """

    name = "osd"

    def __init__(self, problem: DecodingProblem, order: int = 0) -> None:
        self.problem = problem
        self.order = order

    @cached_property
    def _bp_osd(self) -> BpOsd:
        return BpOsd(self.problem, self.order)

    @cached_property
    def per_shot(self) -> OrderedStatistics:
        return OrderedStatistics(self.problem.h, self.problem.l)

    @cached_property
    def _weights(self) -> F64:
        return log_odds(self.problem.priors)

    def decode(self, detectors: U8) -> U8:
        return self._bp_osd.decode(self.problem.backend_shots(detectors))

    def decode_priors(
        self, detectors: U8, priors: npt.NDArray[np.floating], *, threads: int | None = None
    ) -> U8:
        beliefs = checked_log_odds(priors, len(detectors), self.problem.n_faults)
        seen = self.problem.backend_shots(detectors)
        return self.per_shot.decode(seen, beliefs, order=self.order, method="cs", threads=threads)

    def decode_with_confidence(self, detectors: U8) -> Confident:
        return self._bp_osd.decode_with_confidence(self.problem.backend_shots(detectors))

    def priors_with_confidence(
        self, detectors: U8, priors: npt.NDArray[np.floating], *, threads: int | None = None
    ) -> Confident:
        """Candidates weigh in the margin what the environment's priors say: posteriors count the syndrome twice (BB72, turbo, 20,000
        shots: 83 failures; expected by the priors 128, by the posteriors 21)."""
        beliefs = checked_log_odds(priors, len(detectors), self.problem.n_faults)
        seen = self.problem.backend_shots(detectors)
        return self.per_shot.decode_with_margins(
            seen, beliefs, order=self.order, margin_weights=self._weights, threads=threads
        )

    def decode_residual(self, residual: U8, frame: U8) -> U8:
        return frame ^ self.decode(residual)
