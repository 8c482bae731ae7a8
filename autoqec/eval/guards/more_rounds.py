"""More rounds: the same weights on a memory of twice the rounds, where the code family and the model allow it.

Weights that are tied to checks or faults have no meaning there. For others, a gain that belongs to the noise and not to
one circuit persists; that it does is worth knowing, that it does not is not cheating.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.envs.codes.code_string import with_parameter
from autoqec.envs.environment import Environment
from autoqec.errors import AutoQECError
from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult
from autoqec.eval.verification_state import VerificationState, is_worse
from autoqec.eval.verifier_worker import VerifierWorker
from autoqec.sandbox.confined import Refused
from autoqec.stats.table import PairedTable

NAME = "more_rounds"
PROBLEM = "more rounds"
SHOTS = 10_000
LARGEST = 20_000
"""Faults of the longer memory, about twice those of the other, beyond which this is left out: it informs, and should not take
longer than the test."""


def longer(env: Environment) -> Environment | None:
    """The environment with twice the rounds; None where its source has no such parameter."""
    code = env.spec.code
    source = with_parameter(code.source, "rounds", lambda rounds: str(2 * int(rounds)))
    if source is not None:
        changed = code.model_copy(update={"source": source})
    elif code.rounds is not None:
        changed = code.model_copy(update={"rounds": 2 * code.rounds})
    else:
        return None
    return Environment(env.spec.model_copy(update={"code": changed}), root=env.root, origin=env.origin)


class Extended(NamedTuple):
    table: PairedTable | None
    reason: str = ""


@dataclass(frozen=True)
class Extend:
    spec: str
    root: str
    p: float
    seed: int
    choice: DecoderChoice
    model: str

    def run(self, verifier: VerifierWorker) -> Extended:
        env = verifier.environment(self.spec, self.root)
        try:
            verifier.held(PROBLEM, self.model)
        except Refused as error:
            return Extended(None, f"the weights belong to these rounds: {error.what}")
        except AutoQECError as error:
            return Extended(None, error.what)
        shots = env.sampler(self.p).sample(SHOTS, self.seed)
        plain = verifier.decoder(PROBLEM, self.choice).decode(shots.detectors)
        answers = verifier.ask(PROBLEM, self.model, shots.detectors)
        predicted = verifier.predict(PROBLEM, self.model, shots.detectors, answers)
        first = (plain != shots.observables).any(axis=1)
        second = (predicted != shots.observables).any(axis=1) | ~answers.valid
        both = int((first & second).sum())
        b, c = int(np.sum(first)) - both, int(np.sum(second)) - both
        return Extended(PairedTable(SHOTS, b, c, both))


def prepare(verification: VerificationState) -> Sequence[Extend]:
    if verification.longer is None:
        return []
    seed = verification.secret.seed(
        "more rounds", verification.bundle.name, verification.longer.stream(verification.reference_p), 0
    )
    spec = verification.longer.spec.model_dump_json()
    return [
        Extend(
            spec,
            str(verification.env.root),
            verification.reference_p,
            seed,
            verification.plain,
            verification.model(),
        )
    ]


def judge(verification: VerificationState, answers: Sequence[Any]) -> GuardResult:
    if not answers:
        if longer(verification.env) is None:
            return _none("the environment has no number of rounds to raise")
        return _none(f"twice the rounds have more than {LARGEST} faults")
    found: Extended = answers[0]
    if found.table is None:
        return _none(found.reason)
    table = found.table
    text = (
        f"twice the rounds, {table.shots} shots at p = {verification.reference_p:g}: {verification.plain.name} fails on "
        f"{table.baseline_failures}, the candidate with the same weights on {table.candidate_failures}"
    )
    return GuardResult(name=NAME, ok=not is_worse(table), severity="informs", number=table.delta, text=text)


def _none(reason: str) -> GuardResult:
    return GuardResult(name=NAME, ok=None, severity="informs", number=None, text=f"not applicable: {reason}")


GUARD = Guard(NAME, judge, prepare)
