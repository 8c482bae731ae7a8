"""What is left of a syndrome after a predecoder applied faults (`hard_flip`), by the problem's own H and L."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from autoqec.envs.packing import pack
from autoqec.envs.problem import U8, DecodingProblem


@dataclass(frozen=True, eq=False)
class HardFlips:
    """What a hard_flip predecoder leaves: the residual syndrome and the observables it has flipped, both packed."""

    residual: U8
    frame: U8


class FaultMaps:
    """H and L of a problem, to apply them to the faults of many shots."""

    def __init__(self, problem: DecodingProblem) -> None:
        self._h: sp.csr_array[Any] = problem.h.tocsr().astype(np.int32)
        self._l: sp.csr_array[Any] = problem.l.tocsr().astype(np.int32)

    def flips(self, syndrome: U8, faults: npt.NDArray[Any]) -> HardFlips:
        """syndrome: [shots, n_checks], faults: [shots, n_faults], both zeros and ones."""
        # Few faults are applied: sparse products cost what was applied, not the size of H.
        applied = sp.csr_array(faults.astype(np.int32)).T
        residual = (np.asarray((self._h @ applied).todense()).T + syndrome) & 1
        frame = np.asarray((self._l @ applied).todense()).T & 1
        return HardFlips(pack(residual), pack(frame))
