"""`autoqec.PerShotMatching`: exact matching in which every shot has its own weights, for use by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import stim

from autoqec.decoders.backends.per_shot_matching import MatchingSolutions, PerShotMatcher
from autoqec.envs.build import problem_from_dem
from autoqec.envs.packing import packed_shots, unpack
from autoqec.envs.problem import F64, U8, MatchingGraph, log_odds
from autoqec.errors import InputError

Bits = npt.NDArray[Any]


class PerShotMatching:
    """Minimum-weight perfect matching with weights per shot.

    Args:
        model: a `stim.DetectorErrorModel` (made with `decompose_errors=True`), or the `graph` of a decoding problem.

    Weights are log-odds, one per edge, and may be negative; `inf` forbids an edge. Parallel edges of a model are merged.

    Examples:
        >>> import autoqec, stim
        >>> circuit = stim.Circuit.generated("surface_code:rotated_memory_z", distance=3, rounds=3,
        ...                                  after_clifford_depolarization=0.01)
        >>> matching = autoqec.PerShotMatching(circuit.detector_error_model(decompose_errors=True))
        >>> shots, observables = circuit.compile_detector_sampler(seed=1).sample(100, separate_observables=True)
        >>> weights = matching.weights[None, :].repeat(100, axis=0)  # the model's own, for every shot
        >>> matching.decode(shots, weights).shape
        (100, 1)
    """

    def __init__(self, model: stim.DetectorErrorModel | MatchingGraph) -> None:
        if isinstance(model, stim.DetectorErrorModel):
            problem = problem_from_dem(model.flattened(), need_graph=True)
            assert problem.graph is not None
            self.graph, self.n_detectors = problem.graph, problem.n_checks
        elif isinstance(model, MatchingGraph):
            self.graph, self.n_detectors = model, int(model.ends.max(initial=-1)) + 1
        else:
            raise InputError(
                f"got {type(model).__name__}",
                where="PerShotMatching",
                hint="give a stim.DetectorErrorModel or a MatchingGraph",
            )
        self._matcher = PerShotMatcher.from_graph(self.graph, self.n_detectors)

    @property
    def n_edges(self) -> int:
        return self.graph.n_edges

    @property
    def edges(self) -> npt.NDArray[np.int32]:
        """[n_edges, 2] the detectors of each edge; -1 is the boundary."""
        return self.graph.ends

    @property
    def weights(self) -> F64:
        """[n_edges] log-odds of the model itself."""
        return log_odds(self.graph.priors)

    def decode(
        self,
        shots: Bits,
        weights: npt.NDArray[Any] | None = None,
        *,
        bit_packed_shots: bool = False,
        bit_packed_predictions: bool = False,
        threads: int | None = None,
    ) -> U8:
        """Predicted observables, uint8 [shots, n_observables].

        Args:
            shots: detection events [shots, n_detectors] of zeros and ones, or packed with `bit_packed_shots`.
            weights: [shots, n_edges], or [n_edges] for all shots. Default: the model's own.
            threads: by default one per available core. The answer does not depend on it.
        """
        packed = packed_shots(shots, self.n_detectors, is_packed=bit_packed_shots)
        predicted = self._matcher.decode(packed, self._weights(weights), threads=threads)
        return predicted if bit_packed_predictions else unpack(predicted, self._matcher.n_observables)

    def decode_with_confidence(
        self,
        shots: Bits,
        weights: npt.NDArray[Any] | None = None,
        *,
        bit_packed_shots: bool = False,
        threads: int | None = None,
    ) -> tuple[U8, F64]:
        """Predicted observables, and for every shot the weight of the cheapest correction with other observables, less that of the
        cheapest of all: the log-odds that the prediction is right, as far as two corrections tell. Arguments as for `decode`."""
        packed = packed_shots(shots, self.n_detectors, is_packed=bit_packed_shots)
        found = self._matcher.decode_with_margins(packed, self._weights(weights), threads=threads)
        return unpack(found.predictions, self._matcher.n_observables), found.log_odds

    def decode_to_edges(
        self,
        shots: Bits,
        weights: npt.NDArray[Any] | None = None,
        *,
        bit_packed_shots: bool = False,
        threads: int | None = None,
    ) -> MatchingSolutions:
        """The corrections themselves, packed, with what they flip and their weights."""
        packed = packed_shots(shots, self.n_detectors, is_packed=bit_packed_shots)
        return self._matcher.decode_to_edges(packed, self._weights(weights), threads=threads)

    def _weights(self, given: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        if given is None:
            return self.weights
        array = np.asarray(given)
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
