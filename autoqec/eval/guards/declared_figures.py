"""Declared figures: what metrics.json says, beside what was measured. It is compared and never used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from autoqec.decoders.stage_cost import FEWEST, HARD, LOOKED_THROUGH
from autoqec.eval.guards import Guard
from autoqec.eval.guards.cost_census import LEAST_SPREAD, Counted, expected, number, prepare
from autoqec.eval.schema import GuardResult
from autoqec.eval.verification_state import VerificationState

NAME = "declared_figures"
FLOPS_TOLERANCE = 0.02
SHORT_PROFILE = 0.2
SIGMAS = 6.0
"""Between a declared LER and the measured one, and between costs of a cascade. Training chose its state on other shots, so they may differ a little."""
FEWEST_SHARES = 500
"""Shots behind declared shares, at least: a smaller number would excuse anything."""


def judge(verification: VerificationState, answers: Sequence[Any]) -> GuardResult:
    metrics = verification.subject.metrics
    if metrics is None:
        return GuardResult(
            name=NAME, ok=None, severity="breaks", number=None, text="the round has no readable metrics.json"
        )
    counted: Counted = answers[0]
    wrong, compared = [], 0
    flops, params = number(metrics.get("flops_per_syndrome")), number(metrics.get("n_params"))
    if flops is not None and counted.flops is not None:
        compared += 1
        # A count that depends on the shots differs from one set of them to the next.
        now = expected(verification, counted) or counted.flops
        if abs(flops - now) > (FLOPS_TOLERANCE + counted.spread) * now + _shares_slack(verification, counted):
            wrong.append(f"{flops:.0f} FLOPs declared, {now} counted")
    if params is not None:
        compared += 1
        if params != verification.subject.n_params:
            wrong.append(f"{params:.0f} parameters declared, {verification.subject.n_params} loaded")
    p = number(metrics.get("reference_p"))
    if p is None or p == verification.reference_p:
        table = verification.against_plain(verification.reference_p)
        for name, failures in (
            ("ler_plain_classical", table.baseline_failures),
            ("ler_predecoder", table.candidate_failures),
        ):
            declared = number(metrics.get(name))
            if declared is None:
                continue
            compared += 1
            if not _agree(declared, failures, table.shots, _declared_shots(verification)):
                wrong.append(f"{name} = {declared:.4g} declared, {failures / table.shots:.4g} measured")
    text = "; ".join(wrong) or f"{compared} figures of metrics.json agree with what was measured"
    return GuardResult(name=NAME, ok=not wrong, severity="breaks", number=float(len(wrong)), text=text)


def _shares_slack(verification: VerificationState, counted: Counted) -> float:
    """FLOPs by which two countings of a cascade may differ: shares of other shots, and stages whose work depends on the shot."""
    found = counted.stages
    reached = verification.tally.reached(verification.reference_p, verification.model())
    if not found.flops or len(reached) != len(found.flops):
        return 0.0
    cascade = (verification.subject.metrics or {}).get("cascade")
    rows = cascade.get("per_p") if isinstance(cascade, dict) else None
    declared = _shots_at(verification, rows) or _least_shots(verification)
    variance = 0.0
    for stage, flops in enumerate(found.flops):
        share = (reached[stage] + 1) / (reached[0] + 1)
        variance += flops**2 * share * (1 - share) * (1 / max(declared, FEWEST_SHARES) + 1 / reached[0])
        on = min(max(int(share * LOOKED_THROUGH), FEWEST), HARD)  # those of the declared count, at least
        per_shot = max(found.per_shot(stage), LEAST_SPREAD * flops if found.spread[stage] else 0.0)
        variance += (share * per_shot) ** 2 * (1 / found.shots[stage] + 1 / on)
    return SIGMAS * math.sqrt(variance)


def _agree(declared: float, failures: int, shots: int, declared_shots: int) -> bool:
    if not 0 <= declared <= 1:
        return False
    measured = failures / shots
    pooled = (failures + declared * declared_shots + 1) / (shots + declared_shots + 2)
    sigma = math.sqrt(pooled * (1 - pooled) * (1 / shots + 1 / declared_shots))
    return abs(declared - measured) <= SIGMAS * sigma + 0.05 * measured


def _declared_shots(verification: VerificationState) -> int:
    """Shots behind the declared rates: as declared, and at least the share of `min_shots_val` that the short profile takes."""
    rows = (verification.subject.metrics or {}).get("per_p")
    return max(_least_shots(verification), _shots_at(verification, rows) or 0)


def _least_shots(verification: VerificationState) -> int:
    return max(1, int(SHORT_PROFILE * verification.env.spec.eval_protocol.min_shots_val))


def _shots_at(verification: VerificationState, rows: Any) -> int | None:
    """Those of the row of the reference p, in a list that is not trusted."""
    for row in rows if isinstance(rows, list) else []:
        if (
            isinstance(row, dict)
            and row.get("p") == verification.reference_p
            and type(row.get("shots")) is int
        ):
            return max(0, min(int(row["shots"]), 10**12))
    return None


GUARD = Guard(NAME, judge, prepare)
