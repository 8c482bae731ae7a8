"""What every decoder is: detection events in, predicted observables out. It never sees the observables."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from autoqec.envs.problem import F64, U8, DecodingProblem


class Decoder(Protocol):
    def decode(self, detectors: U8) -> U8:
        """Packed detectors [shots, ceil(n_checks / 8)] -> packed predictions [shots, ceil(n_observables / 8)]."""
        ...


class Confident(NamedTuple):
    """predictions: packed [shots, ceil(n_observables / 8)].

    log_odds: [shots] that all observables of the prediction are right, as the decoder sees it: the weight of the lightest correction
    of another logical class, less that of the lightest of the predicted one. Infinite where there is no other.
    """

    predictions: U8
    log_odds: F64


@runtime_checkable
class ConfidentDecoder(Decoder, Protocol):
    """A decoder that says how sure it is. Its predictions are those of `decode`."""

    def decode_with_confidence(self, detectors: U8) -> Confident: ...


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
