"""Frozen baseline: the plain backend is as good as the environment lets it be, so that a gain over it is one.

Two checks on the evaluation shots. The plain matcher must be as good as a second implementation with the same weights; where
two corrections are equally cheap, they may disagree. And detectors must fire as often as the decoding model says, which bad priors would
not survive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.envs.packing import unpack
from autoqec.envs.problem import DecodingProblem, log_odds
from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult
from autoqec.eval.tasks import Where
from autoqec.eval.verification_state import VerificationState, is_worse
from autoqec.eval.verifier_worker import VerifierWorker
from autoqec.stats.table import PairedTable

NAME = "frozen_baseline"
SHOTS = 20_000
EXCESS = {"leakage": 0.3}  # the decoder's model is the twirled average of a process that it cannot express
DEFAULT_EXCESS = 0.05


class Checked(NamedTuple):
    """matchers: the second one as the baseline of the first, None where there is none. disagree: shots with other
    predictions. excess: observed over predicted detection events, less 1."""

    shots: int
    matchers: PairedTable | None
    disagree: int
    excess: float
    events: float
    worst_sigma: float


@dataclass(frozen=True)
class Check:
    where: Where
    shots: int

    def run(self, verifier: VerifierWorker) -> Checked:
        problem = verifier.setup.problems[self.where.problem]
        shots = self.where.read(verifier, 0, self.shots)
        backend = verifier.backend(self.where.problem)
        rate = unpack(shots.detectors, problem.n_checks).mean(axis=0)
        model = predicted_rates(problem)
        sigma = np.abs(rate - model) / np.sqrt(np.maximum(model * (1 - model), 1e-12) / self.shots)
        excess = float(rate.sum() / model.sum() - 1)
        matchers, disagree = None, 0
        if isinstance(backend, MatchingBackend):
            plain = backend.decode(shots.detectors)
            other = backend.per_shot.decode(shots.detectors, log_odds(backend.graph.priors), threads=1)
            disagree = int((plain != other).any(axis=1).sum())
            first = (plain != shots.observables).any(axis=1)
            second = (other != shots.observables).any(axis=1)
            both = int((first & second).sum())
            matchers = PairedTable(self.shots, int(second.sum()) - both, int(first.sum()) - both, both)
        events = float(rate.sum() * self.shots)
        return Checked(self.shots, matchers, disagree, excess, events, float(sigma.max(initial=0.0)))


def predicted_rates(problem: DecodingProblem) -> npt.NDArray[np.float64]:
    """How often each detector fires: an odd number of its faults."""
    model = problem.sampled
    rows = model.h.tocsr()
    logs = np.log1p(-2 * np.minimum(model.priors, 0.5 - 1e-15))
    return np.asarray((1 - np.exp(rows.astype(np.float64) @ logs)) / 2)


def prepare(verification: VerificationState) -> Sequence[Check]:
    p = verification.reference_p
    return [Check(verification.where(p), min(SHOTS, verification.bundle.shots(p)))]


def judge(verification: VerificationState, answers: Sequence[Any]) -> GuardResult:
    found: Checked = answers[0]
    # A fault fires two detectors or more, so that events come in clusters: twice the counting error.
    allowed = EXCESS.get(verification.env.spec.noise.type, DEFAULT_EXCESS) + 10 / math.sqrt(
        max(found.events, 1.0)
    )
    wrong = []
    if found.matchers is not None and is_worse(found.matchers):
        wrong.append("a second matcher with the same weights is significantly better")
    if abs(found.excess) > allowed:
        wrong.append(f"detectors fire {100 * found.excess:+.1f}% more often than the decoding model says")
    agreement = (
        f"{verification.plain.name} and a second matcher with the same weights fail on {found.matchers.candidate_failures} and "
        f"{found.matchers.baseline_failures} of {found.shots} shots and disagree on {found.disagree}; "
        if found.matchers is not None
        else ""
    )
    text = "; ".join(wrong) or (
        f"{agreement}detection events are {100 * found.excess:+.2f}% off the model's, worst detector {found.worst_sigma:.1f} sigma"
    )
    return GuardResult(name=NAME, ok=not wrong, severity="breaks", number=found.excess, text=text)


GUARD = Guard(NAME, judge, prepare)
