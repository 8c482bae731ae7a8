"""Every baseline decoder as a `sinter.Decoder`, but for those that need to know the basis of a detector, which an error model
does not say.

`autoqec.sinter_decoders` offers them, and predecoders that were found, to sinter.

Sinter has a decoder called `pymatching` of its own, so names here start with `autoqec_`.
"""

from __future__ import annotations

import numpy as np
import sinter
import stim

from autoqec.decoders.baselines.registry import choose, entry, names
from autoqec.decoders.protocol import Confident, Decoder, DecoderFactory, decode_with_confidence
from autoqec.envs.build import problem_from_dem
from autoqec.envs.packing import width
from autoqec.envs.problem import U8, DecodingProblem, log_odds

_ORDERS = (0, 10)


class CompiledAdapter(sinter.CompiledDecoder):  # type: ignore[misc]
    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def decode_shots_bit_packed(self, *, bit_packed_detection_event_data: U8) -> U8:
        return self._decoder.decode(np.ascontiguousarray(bit_packed_detection_event_data))


class DiscardingAdapter(sinter.CompiledDecoder):  # type: ignore[misc]
    """Sinter counts a shot as discarded where the byte after the predicted observables is not zero."""

    def __init__(self, decoder: Decoder, name: str, discard_below: float) -> None:
        self._decoder, self._name, self._discard_below = decoder, name, discard_below

    def decode_shots_bit_packed(self, *, bit_packed_detection_event_data: U8) -> U8:
        shots = np.ascontiguousarray(bit_packed_detection_event_data)
        found = decode_with_confidence(self._decoder, shots, name=self._name)
        is_discarded = found.log_odds < self._discard_below
        return np.concatenate([found.predictions, is_discarded[:, None].astype(np.uint8)], axis=1)


class _Nothing:
    """For models without detectors, faults or observables: nothing ever has to be corrected."""

    def __init__(self, problem: DecodingProblem) -> None:
        self._width = width(problem.n_observables)
        flipping = problem.priors[np.diff(problem.l.indptr) > 0]
        self._log_odds = float(log_odds(flipping).min()) if len(flipping) else np.inf

    def decode(self, detectors: U8) -> U8:
        return np.zeros((len(detectors), self._width), dtype=np.uint8)

    def decode_with_confidence(self, detectors: U8) -> Confident:
        return Confident(self.decode(detectors), np.full(len(detectors), self._log_odds))


class SinterDecoder(sinter.Decoder):  # type: ignore[misc]
    """Builds the factory's decoder for whatever error model sinter hands over.

    discard_below: shots whose log-odds are below it are discarded; None keeps all.
    """

    def __init__(self, factory: DecoderFactory, *, discard_below: float | None = None) -> None:
        self.factory = factory
        self.discard_below = discard_below

    def compile_decoder_for_dem(self, *, dem: stim.DetectorErrorModel) -> sinter.CompiledDecoder:
        decoder = decoder_for_dem(self.factory, dem)
        if self.discard_below is None:
            return CompiledAdapter(decoder)
        return DiscardingAdapter(decoder, self.factory.name, self.discard_below)


def decoder_for_dem(factory: DecoderFactory, dem: stim.DetectorErrorModel) -> Decoder:
    """The factory's decoder for an error model given as such."""
    problem = problem_from_dem(dem.flattened(), need_graph=False)
    if problem.n_checks == 0 or problem.n_faults == 0 or problem.n_observables == 0:
        return _Nothing(problem)
    return factory.build(problem)


def decoders() -> dict[str, sinter.Decoder]:
    """The baseline decoders by their sinter names; one that is not installed says so when it is used."""
    return {
        f"autoqec_{choice.name}": SinterDecoder(choice)
        for choice in choose(names(), _ORDERS, where="registry")
        if not entry(choice.entry).needs_context
    }
