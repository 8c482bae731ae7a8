"""What every decoder is: detection events in, predicted observables out. It never sees the observables."""

from __future__ import annotations

from typing import Protocol

from autoqec.envs.problem import U8, DecodingProblem


class Decoder(Protocol):
    def decode(self, detectors: U8) -> U8:
        """Packed detectors [shots, ceil(n_checks / 8)] -> packed predictions [shots, ceil(n_observables / 8)]."""
        ...


class DecoderFactory(Protocol):
    """Names a decoder before it is built; small and picklable, so that worker processes can build their own.

    identity: equal identities decode equally; it goes into stored results and into CSV metadata.
    """

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    def __hash__(self) -> int: ...

    def build(self, problem: DecodingProblem) -> Decoder: ...
