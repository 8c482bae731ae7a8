"""Turbo propagation in many attempts, ordered statistics on both halves behind each, and the lightest of all solutions.

Each attempt is one of `modules.turbo`, untrained: the first one, then legs, each with a memory of its own strength for every fault. What the two
halves say at its end makes log-odds of the joint faults,

    L_f = log((1 - p_f) / p_f) + 2 artanh(k_f tanh(E_a / 2)) + 2 artanh(m_f tanh(E_b / 2))

with E_a, E_b the evidence on the classes of f in the two halves and k_f, m_f the products of 1 - 2 p_g over their other faults, as in
`modules.exchange`. They order the faults for a combination sweep on all detectors, whose candidates weigh what the joint priors say: so the weight of
a solution is that of all its faults together, and solutions of all attempts can be compared, whether or not propagation explained
anything. A shot is done once AGREE attempts have found the lightest weight.

Measured on BB72, p = 3e-3, by one-off scripts, on the 2,553 of 100,000 shots that 8 exchanges leave unexplained, where OSD-0 fails 259 times. The solution
of 24 legs that is lightest on the backend's half fails 118 times; for 96 shots no leg finds the right class. With ordered statistics on both halves
behind 24 legs of 13 exchanges it is 97 times, and 24 of these shots have no solution of the right class. On half of the shots, legs of 2, 3, 4, 7 and 13 exchanges, 16 of them: 51, 49, 40, 43 and 45
failures; of 4 exchanges until 2, 3 or 4 attempts agree: 46, 45 and 43, after 5.4, 8.1 and 10.0 attempts. Tesseract with a beam of 5, two seconds a
shot: 6 failures of 243 such shots, as many as these.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from autoqec.decoders.backends.ordered_statistics import OrderedStatistics
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.cost_basis import typical_syndromes
from autoqec.decoders.dsl_schema import MOST_LEGS, USUAL_LEGS, PredecoderDSL
from autoqec.decoders.flop_census import count, for_backend
from autoqec.decoders.modules.predecoders import NeuralBpPredecoder
from autoqec.decoders.modules.turbo import Attempt, TurboBP
from autoqec.decoders.protocol import Confident
from autoqec.envs.halves import context_half
from autoqec.envs.packing import checked, pack, unpack, width
from autoqec.envs.problem import F64, U8, DecodingProblem, JointModel, log_odds
from autoqec.errors import InputError

EXCHANGES = 4
"""Of an attempt."""
AGREE = 3
ORDER = 10
_SAME = 1e-6
"""Weights that differ by less are those of one solution, or of one as good."""
_BATCH = 64
_TELLING = 16
"""Operations for the log-odds of one joint fault."""
_ALMOST_SURE = 1 - 1e-7


class JointLegs:
    """A `ConfidentDecoder`. legs: attempts beyond the first."""

    def __init__(self, problem: DecodingProblem, legs: int = USUAL_LEGS) -> None:
        if problem.joint is None:
            raise InputError(
                f"{problem.name} shows one half of the syndrome",
                where="joint_legs",
                hint="use an environment with eval_protocol.osd_bases: observable_with_context",
            )
        if not 1 <= legs <= MOST_LEGS:
            raise InputError(
                f"makes between 1 and {MOST_LEGS} legs, not {legs}",
                where="legs",
                hint=f"{USUAL_LEGS} are usual",
            )
        self._problem, self._legs = problem, legs
        self._propagation, self._ctx = _turbo(problem, legs), context(problem)
        self._statistics = OrderedStatistics(problem.joint.h, problem.joint.l)
        self._weights = log_odds(problem.joint.priors)
        self._observables = problem.joint.l.tocsr().astype(np.int32)
        other = context_half(problem.joint)
        self._halves = [_Told(problem.joint, of) for of in (problem.joint.fault_of, other.class_of)]

    def decode(self, detectors: U8) -> U8:
        return self._decoded(detectors).predictions

    def decode_with_confidence(self, detectors: U8) -> Confident:
        """The observables of the lightest solution, and how much heavier the lightest of another class is, among the solutions of all attempts and the
        candidates of the one that found it."""
        found = self._decoded(detectors, with_margins=True)
        return Confident(found.predictions, found.log_odds)

    def flops(self, detectors: U8) -> int:
        """Of a shot, in the mean over these: propagation as it is counted elsewhere, and ordered statistics as if no candidate were passed over."""
        found = self._decoded(detectors)
        work = found.exchanges * self._per_exchange + found.attempts * self._per_attempt
        return round(work / max(len(detectors), 1))

    def _decoded(self, detectors: U8, *, with_margins: bool = False) -> _Decoded:
        packed = checked(detectors, self._problem.n_checks, what="detectors")
        torch.set_num_threads(1)
        none = _Decoded(np.zeros((0, width(self._problem.n_observables)), np.uint8), np.zeros(0), 0, 0)
        parts = [none] + [
            self._part(packed[start : start + _BATCH], with_margins=with_margins)
            for start in range(0, len(packed), _BATCH)
        ]
        return _Decoded(
            np.concatenate([part.predictions for part in parts]),
            np.concatenate([part.log_odds for part in parts]),
            sum(part.attempts for part in parts),
            sum(part.exchanges for part in parts),
        )

    def _part(self, detectors: U8, *, with_margins: bool) -> _Decoded:
        shots, n_joint = len(detectors), len(self._weights)
        weights = np.full((1 + self._legs, shots), np.inf)
        observables = np.zeros((1 + self._legs, shots, width(self._problem.n_observables)), np.uint8)
        beliefs, faults = np.zeros((shots, n_joint), np.float32), np.zeros((shots, width(n_joint)), np.uint8)
        syndrome = torch.from_numpy(unpack(detectors, self._problem.n_checks)).float().T
        left, attempts, exchanges = np.arange(shots), 0, 0
        for at, leg in enumerate((None, *range(self._legs))):
            with torch.no_grad():
                attempt = self._propagation.attempt(leg, syndrome[:, left].contiguous(), self._ctx)
            told = self._beliefs(attempt)
            solved = self._statistics.decode_to_faults(
                detectors[left], told, order=ORDER, weights=self._weights, threads=1
            )
            lighter = solved.weights < weights.min(axis=0)[left]
            beliefs[left[lighter]], faults[left[lighter]] = told[lighter], solved.faults[lighter]
            weights[at, left], observables[at, left] = solved.weights, self._flipped(solved.faults)
            attempts, exchanges = attempts + len(left), exchanges + _total(attempt.exchanges)
            left = np.flatnonzero((weights < weights.min(axis=0) + _SAME).sum(axis=0) < AGREE)
            if not len(left):
                break
        lightest = weights.min(axis=0)
        predictions = observables[weights.argmin(axis=0), np.arange(shots)]
        rivals = np.where((observables != predictions).any(axis=2), weights, np.inf).min(axis=0)
        if with_margins:
            margins = self._statistics.decode_with_margins(
                detectors,
                beliefs,
                order=ORDER,
                margin_weights=self._weights,
                given=unpack(faults, n_joint),
                threads=1,
            ).log_odds
            rivals = np.minimum(rivals, lightest + margins)
        return _Decoded(predictions, rivals - lightest, attempts, exchanges)

    def _flipped(self, faults: U8) -> U8:
        chosen = unpack(faults, len(self._weights)).T.astype(np.int32)
        return pack((self._observables @ chosen).T.astype(np.uint8) & 1)

    def _beliefs(self, attempt: Attempt) -> npt.NDArray[np.float32]:
        """[batch, n_joint] log-odds of the joint faults."""
        assert attempt.told is not None
        own = (attempt.answer - attempt.prior).numpy()
        beliefs = np.broadcast_to(
            self._weights.astype(np.float32)[:, None], (len(self._weights), own.shape[1])
        ).copy()
        for half, evidence in zip(self._halves, (own, attempt.told.numpy()), strict=True):
            half.add_to(beliefs, evidence)
        return np.ascontiguousarray(beliefs.T)

    @cached_property
    def _per_exchange(self) -> float:
        asks = for_backend(_Unstopped(self._propagation), wants_edges=False)
        shots = torch.from_numpy(
            unpack(typical_syndromes(self._problem, 4, 0), self._problem.n_checks)
        ).float()
        return count(asks, [shots], self._ctx).mean / self._propagation.turbo.exchanges

    @cached_property
    def _per_attempt(self) -> int:
        """The log-odds; a look-up for every eight pivots of each candidate; the elimination, 64 bits at a time."""
        n, rank = len(self._weights), self._statistics.rank
        candidates = n - rank + ORDER * (ORDER - 1) // 2
        return 2 * _TELLING * n + candidates * rank // 8 + rank**3 // 64


class _Decoded(NamedTuple):
    """predictions: packed. log_odds: [shots]. attempts, exchanges: that were made for all of the shots."""

    predictions: U8
    log_odds: F64
    attempts: int
    exchanges: int


class _Told:
    """What one half tells the joint faults. class_of: [n_joint], -1 where a fault has no symptom there."""

    def __init__(self, joint: JointModel, class_of: npt.NDArray[np.integer[Any]]) -> None:
        self._faults = np.flatnonzero(class_of >= 0)
        self._classes = class_of[self._faults].astype(np.int64)
        logs = np.log1p(-2.0 * np.minimum(joint.priors[self._faults], 0.4999))
        others = np.bincount(self._classes, logs)[self._classes] - logs
        self._share = np.exp(others).astype(np.float32)[:, None]

    def add_to(self, beliefs: npt.NDArray[np.float32], evidence: npt.NDArray[np.float32]) -> None:
        pull = np.tanh(evidence / 2.0)[self._classes] * self._share
        beliefs[self._faults] += 2.0 * np.arctanh(np.clip(pull, -_ALMOST_SURE, _ALMOST_SURE))


class _Unstopped(nn.Module):
    """All exchanges of the first attempt, for the count."""

    output_mode = "soft_priors"

    def __init__(self, propagation: TurboBP) -> None:
        super().__init__()
        self._propagation = propagation

    def forward(self, syndrome: Tensor, ctx: dict[str, Any]) -> Tensor:
        return self._propagation.unstopped(syndrome.T, ctx).T


def _total(numbers: Tensor | None) -> int:
    return 0 if numbers is None else int(numbers.sum())


def _turbo(problem: DecodingProblem, legs: int) -> TurboBP:
    config = {
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": {
            "iterations": 4,
            "damping": "fixed",
            "turbo": {"exchanges": EXCHANGES, "legs": legs, "leg_exchanges": EXCHANGES},
        },
    }
    module = compile_predecoder(PredecoderDSL.model_validate(config), problem).eval()
    assert isinstance(module, NeuralBpPredecoder)
    assert isinstance(module.bp, TurboBP)
    return module.bp
