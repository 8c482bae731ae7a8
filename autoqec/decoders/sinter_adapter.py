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
from autoqec.decoders.protocol import Decoder, DecoderFactory
from autoqec.envs.build import problem_from_dem
from autoqec.envs.packing import width
from autoqec.envs.problem import U8

_ORDERS = (0, 10)


class CompiledAdapter(sinter.CompiledDecoder):  # type: ignore[misc]
    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def decode_shots_bit_packed(self, *, bit_packed_detection_event_data: U8) -> U8:
        return self._decoder.decode(np.ascontiguousarray(bit_packed_detection_event_data))


class _Nothing:
    """For models without detectors, faults or observables: nothing ever has to be corrected."""

    def __init__(self, n_observables: int) -> None:
        self._width = width(n_observables)

    def decode(self, detectors: U8) -> U8:
        return np.zeros((len(detectors), self._width), dtype=np.uint8)


class SinterDecoder(sinter.Decoder):  # type: ignore[misc]
    """Builds the factory's decoder for whatever error model sinter hands over."""

    def __init__(self, factory: DecoderFactory) -> None:
        self.factory = factory

    def compile_decoder_for_dem(self, *, dem: stim.DetectorErrorModel) -> CompiledAdapter:
        return CompiledAdapter(decoder_for_dem(self.factory, dem))


def decoder_for_dem(factory: DecoderFactory, dem: stim.DetectorErrorModel) -> Decoder:
    """The factory's decoder for an error model given as such."""
    problem = problem_from_dem(dem.flattened(), need_graph=False)
    if problem.n_checks == 0 or problem.n_faults == 0 or problem.n_observables == 0:
        return _Nothing(problem.n_observables)
    return factory.build(problem)


def decoders() -> dict[str, sinter.Decoder]:
    """The baseline decoders by their sinter names; one that is not installed says so when it is used."""
    return {
        f"autoqec_{choice.name}": SinterDecoder(choice)
        for choice in choose(names(), _ORDERS, where="registry")
        if not entry(choice.entry).needs_context
    }
