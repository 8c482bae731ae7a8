"""What every decoder is: detection events in, predicted observables out. It never sees the observables."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from autoqec.envs.problem import F64, U8, DecodingProblem
from autoqec.errors import UnavailableError


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


def decode_with_confidence(decoder: Decoder, detectors: U8, *, name: str) -> Confident:
    """
    Raises:
        UnavailableError: the decoder, called `name`, does not say how sure it is.
    """
    if not isinstance(decoder, ConfidentDecoder):
        raise UnavailableError(
            f"{name} does not say how sure it is",
            where="confidence",
            hint="take a predecoder, pymatching, belief_matching, bposd, turbo, joint_legs or sweep",
        )
    return decoder.decode_with_confidence(detectors)


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


SHOTS_AT_ONCE = 2048


def shots_at_once(factory: DecoderFactory) -> int:
    """What a decoder is given in one call: `shots_at_once` of its factory, a power of 2, or `SHOTS_AT_ONCE`. Calls always begin at the same
    shots: the last digit of a network's answer may depend on what else is in its batch."""
    return int(getattr(factory, "shots_at_once", SHOTS_AT_ONCE))
