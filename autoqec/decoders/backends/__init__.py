"""Classical backends behind a predecoder: one protocol, two entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autoqec.envs.problem import U8, DecodingProblem


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

    def decode_residual(self, residual: U8, frame: U8) -> U8:
        """What is left after a predecoder applied faults: frame XOR decode(residual) (`hard_flip`)."""
        ...


def make_backend(problem: DecodingProblem, name: str, order: int = 0) -> Backend:
    """The backend that an environment's `classical_backend` names. order: of ordered statistics."""
    from autoqec.decoders.backends.matching import MatchingBackend
    from autoqec.decoders.backends.osd import OsdBackend

    makers: dict[str, Callable[[], Backend]] = {
        "mwpm": lambda: MatchingBackend(problem),
        "osd": lambda: OsdBackend(problem, order),
    }
    return makers[name]()
