"""Nearly the best decoder, where a sweep over the detectors has too many patterns for all of them to be kept.

The sweep is that of `detector_sweep`. After a fault only the `states` likeliest patterns go on. How likely one is depends on what it leaves
unexplained: for every open detector that is not as the syndrome says, the faults that are still to come and flip it make it less likely, by
odds(an odd number of them) ** DISCOUNT. One fault may explain two or more detectors, hence the exponent below one.

On 1,878 shots of `surface_d5_depol` at p = 5e-3, on which `cascade_1mflop` of the zoo has log-odds below 1 and fails 709 times, 64 states make 648 failures. Tried before:
with the exponents 0.35, 0.5, 0.7, 0.85 and 1 they made 688, 659, 653, 647 and 651; 128 states and 0.85 646; 1,024 states and 0.5 646. Few states are too sure: these 64
expect 594 failures, 1,024 expect 626.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.decoders.backends._kernels.pruned_sweep import Steps, sweep
from autoqec.decoders.dsl_schema import MOST_STATES
from autoqec.decoders.protocol import Confident
from autoqec.decoders.sweep_order import sweep_order
from autoqec.envs.packing import checked, pack, unpack
from autoqec.envs.problem import F64, U8, DecodingProblem
from autoqec.errors import InputError

STATES = 64
"""By default."""
MOST_OPEN = 64
"""Bits of a pattern."""
MOST_OBSERVABLES = 10
DISCOUNT = 0.85
_TRIES = 12
"""Orders of the detectors."""
OPERATIONS = 16
"""Of one pattern under one fault: it is looked up, its probability changes, and now and then it is compared with the others. Counted as FLOPs."""


def too_wide(problem: DecodingProblem) -> str | None:
    """Why a problem cannot be swept; None where it can."""
    if problem.joint is not None:
        return "the backend decodes one half of the syndrome, and a sweep takes all of it"
    if problem.n_observables > MOST_OBSERVABLES:
        return f"has {problem.n_observables} observables, and a sweep takes at most {MOST_OBSERVABLES}"
    if _order(problem) is None:
        return f"has more than {MOST_OPEN} detectors and observables open at a time"
    return None


class PrunedSweep:
    """A `ConfidentDecoder`. states: patterns that are kept."""

    def __init__(self, problem: DecodingProblem, states: int = STATES) -> None:
        if (reason := too_wide(problem)) is not None:
            raise InputError(
                f"{problem.name} {reason}", where="sweep", hint="use matching or ordered statistics"
            )
        if not 1 <= states <= MOST_STATES:
            raise InputError(
                f"keeps between 1 and {MOST_STATES} patterns, not {states}",
                where="sweep",
                hint="64 are usual",
            )
        self._n_checks, self._n_observables = problem.n_checks, problem.n_observables
        self._states = states
        self._steps = _steps(problem)

    def decode(self, detectors: U8) -> U8:
        return self.decode_with_confidence(detectors).predictions

    def decode_with_confidence(self, detectors: U8) -> Confident:
        """The likeliest observables, and the log-odds that they are right. A syndrome that no pattern explains gives no flips, and 0."""
        chances, _ = self._swept(detectors)
        best = chances.argmax(axis=1)
        right = chances.max(axis=1)
        wrong = chances.sum(axis=1) - right
        with np.errstate(divide="ignore", invalid="ignore"):
            sure = np.where(right > 0, np.log(right) - np.log(np.maximum(wrong, 0.0)), 0.0)
        bits = (best[:, None] >> np.arange(self._n_observables)) & 1
        return Confident(pack(bits.astype(np.uint8)), sure)

    def flops(self, detectors: U8) -> int:
        """Of a shot, in the mean over these."""
        return round(OPERATIONS * self._swept(detectors)[1] / max(len(detectors), 1))

    def _swept(self, detectors: U8) -> tuple[F64, int]:
        """[shots, 2 ** n_observables] the probability of each value of the observables, by the patterns that were kept; and the work."""
        syndromes = unpack(checked(detectors, self._n_checks, what="detectors"), self._n_checks)
        chances = np.zeros((len(syndromes), 1 << self._n_observables))
        return chances, int(sweep(self._steps, syndromes, self._states, chances))


def _order(problem: DecodingProblem) -> list[int] | None:
    return sweep_order(problem, MOST_OPEN - problem.n_observables, _TRIES)


def _steps(problem: DecodingProblem) -> Steps:
    order = _order(problem)
    if order is None:
        raise AssertionError("checked before")
    place = {detector: at for at, detector in enumerate(order)}
    columns, flips = problem.h.tocsc(), problem.l.tocsc()
    even = np.ones(
        problem.n_checks
    )  # of each detector, the product of 1 - 2 p over the faults that are still to come
    at_step: list[list[tuple[list[int], int, float]]] = [[] for _ in order]
    for fault, p in enumerate(problem.priors.tolist()):
        seen = columns.indices[columns.indptr[fault] : columns.indptr[fault + 1]].tolist()
        flipped = sum(1 << int(o) for o in flips.indices[flips.indptr[fault] : flips.indptr[fault + 1]])
        at_step[min((place[each] for each in seen), default=0)].append((seen, flipped, p))
        even[seen] *= _even(p)
    slot: dict[int, int] = {}
    free = list(range(problem.n_observables, MOST_OPEN))[::-1]
    patterns, chances, fault_ptr = [], [], [0]
    opened, opened_bit, opened_ptr, bits = [], [], [0], []
    rest = np.ones((len(order), MOST_OPEN // 8, 256))
    for step, (detector, faults) in enumerate(zip(order, at_step, strict=True)):
        for each in sorted({detector, *(one for seen, _, _ in faults for one in seen)} - slot.keys()):
            slot[each] = free.pop()
            opened.append(each)
            opened_bit.append(1 << slot[each])
        opened_ptr.append(len(opened))
        for each, at in slot.items():
            rest[step, at // 8, _has_bit(at % 8)] *= _odds(even[each]) ** DISCOUNT
        for seen, flipped, p in sorted(faults, key=lambda fault: -fault[2]):
            patterns.append(flipped | sum(1 << slot[each] for each in seen))
            chances.append(p)
            even[seen] /= _even(p)
        fault_ptr.append(len(patterns))
        bits.append(1 << slot[detector])
        free.append(slot.pop(detector))
    words, places = np.uint64, np.int64
    return Steps(
        pattern=np.array(patterns, dtype=words),
        chance=np.array(chances, dtype=np.float64),
        fault_ptr=np.array(fault_ptr, dtype=places),
        opened=np.array(opened, dtype=places),
        opened_bit=np.array(opened_bit, dtype=words),
        opened_ptr=np.array(opened_ptr, dtype=places),
        bit=np.array(bits, dtype=words),
        rest=rest,
    )


def _has_bit(bit: int) -> npt.NDArray[np.bool_]:
    """[256] bytes that have it."""
    return ((np.arange(256) >> bit) & 1).astype(np.bool_)


def _even(p: float) -> float:
    """1 - 2 p, of a fault that leaves room for others."""
    return max(1.0 - 2.0 * p, 1e-3)


def _odds(even: float) -> float:
    """Of an odd number of faults, the product of 1 - 2 p over them being `even`. Never zero: rounding leaves a little of that product."""
    odd = max((1.0 - even) / 2.0, 1e-12)
    return odd / (1.0 - odd)
