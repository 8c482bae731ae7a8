"""Classical backends behind a predecoder: one protocol, one entry per name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.decoders.protocol import Confident
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.errors import InputError


class Backend(Protocol):
    """Packed shots in, packed predicted observables out; deterministic; safe to share between threads."""

    problem: DecodingProblem

    @property
    def name(self) -> str: ...

    def decode(self, detectors: U8) -> U8:
        """With the environment's fixed weights."""
        ...

    def decode_priors(
        self, detectors: U8, priors: npt.NDArray[np.floating], *, threads: int | None = None
    ) -> U8:
        """With fault probabilities of its own for every shot: priors [shots, n_faults] (`soft_priors`)."""
        ...

    def decode_with_confidence(self, detectors: U8) -> Confident:
        """`decode`, and how sure it is."""
        ...

    def priors_with_confidence(
        self, detectors: U8, priors: npt.NDArray[np.floating], *, threads: int | None = None
    ) -> Confident:
        """`decode_priors`, and how sure it is."""
        ...

    def decode_residual(self, residual: U8, frame: U8) -> U8:
        """What is left after a predecoder applied faults: frame XOR decode(residual) (`hard_flip`)."""
        ...


@dataclass(frozen=True)
class BackendEntry:
    """A backend that an environment may name.

    make: from a problem, the order of ordered statistics and the members of an ensemble of matchings. plain: the decoder with the
    environment's fixed weights, which a predecoder in front of this backend is compared with. wants_edges: it decodes with a weight
    per edge of the matching graph, where a predecoder has them. gate: in words, the number that the gate behind a stage of a cascade
    looks at (`AnswerDecoder.judged`).
    """

    make: Callable[[DecodingProblem, int, int], Backend]
    plain: DecoderChoice
    gate: str
    wants_edges: bool = False


def _matching(problem: DecodingProblem, _order: int, members: int) -> Backend:
    from autoqec.decoders.backends.matching import MatchingBackend
    from autoqec.decoders.backends.matching_ensemble import MatchingEnsemble

    return MatchingBackend(problem) if members == 1 else MatchingEnsemble(problem, members)


def _osd(problem: DecodingProblem, order: int, _members: int) -> Backend:
    from autoqec.decoders.backends.osd import OsdBackend

    return OsdBackend(problem, order)


BACKENDS = {
    "mwpm": BackendEntry(
        _matching,
        DecoderChoice("pymatching"),
        "the log-odds that the prediction is right, which are the weight of the lightest matching of another logical class less that of "
        "the lightest of all, with this stage's weights",
        wants_edges=True,
    ),
    "osd": BackendEntry(
        _osd,
        DecoderChoice("bposd", 0),
        "the log-odds that the prediction is right, which are the weight of the lightest candidate of ordered statistics of another "
        "logical class less that of the lightest of the predicted one, with the environment's priors; a shot whose syndrome is that of "
        "the faults that this stage calls likelier than not never goes on",
    ),
}


def backend_entry(name: str) -> BackendEntry:
    """The backend that an environment's `classical_backend` names."""
    if name not in BACKENDS:
        raise InputError(
            f"{name!r} is not a backend", where="classical_backend", hint=f"choose from {', '.join(BACKENDS)}"
        )
    return BACKENDS[name]


def make_backend(problem: DecodingProblem, name: str, order: int = 0, members: int = 1) -> Backend:
    """The named backend on one problem. order: of ordered statistics. members: of an ensemble of matchings."""
    return backend_entry(name).make(problem, order, members)
