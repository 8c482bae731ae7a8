"""The decision about a candidate: an anytime-valid test of paired failures, and a run's budget of alpha.

Among discordant shots let theta be the probability that the baseline is the one that failed. The hypothesis
"no gain" is theta <= 1/2. The e-process is the likelihood ratio of a mixture of theta > 1/2 to theta = 1/2,

    E(b, c) = integral over theta in (1/2, 1) of (2 theta)^b (2 - 2 theta)^c w(theta) d theta,

with w a Beta(a, a) density cut to (1/2, 1). Under every theta <= 1/2 it is a non-negative supermartingale
that starts at 1, so the probability that it ever reaches 1 / alpha is at most alpha (Ville), whenever and for
whatever reason sampling stops. 1 / E is an anytime p-value. The loss side is E(c, b).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaln

from autoqec.errors import InputError
from autoqec.stats.intervals import mcnemar_one_sided
from autoqec.stats.table import PairedTable

Decision = Literal["gain", "loss", "undecided"]

TOTAL_ALPHA = 0.025  # of a whole run, for any false VERIFIED
MIN_DISCORDANT = 20
MIN_BASELINE_FAILURES = 100
GROWTH = 1.5  # of the shots from one look to the next
# Beta(a, a) of the mixture: for theta from 0.53 to 0.75 it stops within about 10% of the best a for each.
MIXTURE = 10.0
_LOG_2 = math.log(2.0)
_LOG_MASS = float(betaln(MIXTURE, MIXTURE)) - _LOG_2  # of the cut density


@dataclass(frozen=True)
class Evidence:
    """What a table says, and why.

    p_gain, p_loss: anytime-valid p-values. p_gain_fixed: exact one-sided McNemar, as if the number of shots
    had been fixed in advance; never above p_gain, so a gain that is decided here is significant there as
    well. reason: one sentence for the report.
    """

    table: PairedTable
    decision: Decision
    p_gain: float
    p_loss: float
    p_gain_fixed: float
    alpha_gain: float
    alpha_loss: float
    enough: bool
    reason: str


def confirmation_alpha(planned: int, spent: int = 0, total: float = TOTAL_ALPHA) -> float:
    """Alpha of the next confirmation of a run that plans `planned` of them, of which `spent` have started.

    Every confirmation gets total / planned, and a retry is a confirmation: after `planned` of them
    there is none left and the answer is 0, with which nothing can be a gain. By the union bound the
    probability of any false gain in the run is at most `total`, however the candidates depend on each other
    and on earlier answers.
    """
    if planned < 1 or spent < 0 or not 0 < total < 1:
        raise InputError(
            f"planned = {planned}, spent = {spent}, total = {total}",
            hint="give planned >= 1, spent >= 0 and 0 < total < 1",
        )
    return total / planned if spent < planned else 0.0


def log_e_value(b: npt.ArrayLike, c: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """log E(b, c) for a gain; for a loss give (c, b). Counts may be arrays."""
    b, c = np.asarray(b, dtype=np.float64), np.asarray(c, dtype=np.float64)
    with np.errstate(divide="ignore"):  # a hopeless case has E = 0
        tail = np.log(betainc(c + MIXTURE, b + MIXTURE, 0.5))
    result: npt.NDArray[np.float64] = (b + c) * _LOG_2 + betaln(b + MIXTURE, c + MIXTURE) + tail - _LOG_MASS
    return result


def anytime_p(b: int, c: int) -> float:
    """Anytime-valid p-value of "no gain"; for "no loss" give (c, b)."""
    return math.exp(min(0.0, -float(log_e_value(b, c))))


def decide_evidence(
    table: PairedTable,
    *,
    alpha_gain: float,
    alpha_loss: float = TOTAL_ALPHA,
    min_discordant: int = MIN_DISCORDANT,
    min_baseline_failures: int = MIN_BASELINE_FAILURES,
) -> Evidence:
    """The decision on the shots so far; may be asked after every batch, and sampling may stop at any answer.

    alpha_gain: from `confirmation_alpha`. alpha_loss guards against a false FAILED, and is per confirmation.
    No decision is made below the two minima.
    """
    for name, alpha in (("alpha_gain", alpha_gain), ("alpha_loss", alpha_loss)):
        if not 0 <= alpha < 1:
            raise InputError(f"{name} = {alpha} is not a level", hint="give 0 <= alpha < 1")
    p_gain, p_loss = anytime_p(table.b, table.c), anytime_p(table.c, table.b)
    gaps = [
        f"{name} = {value} < {minimum}"
        for name, value, minimum in (
            ("b + c", table.discordant, min_discordant),
            ("baseline failures", table.baseline_failures, min_baseline_failures),
        )
        if value < minimum
    ]
    decision: Decision = "undecided"
    if gaps:
        reason = f"too few failures: {', '.join(gaps)}"
    elif p_gain <= alpha_gain and alpha_gain > 0:  # an overwhelming p rounds to 0
        decision, reason = "gain", f"gain: anytime p = {p_gain:.2g} <= alpha = {alpha_gain:.3g}"
    elif p_loss <= alpha_loss and alpha_loss > 0:
        decision, reason = "loss", f"loss: anytime p = {p_loss:.2g} <= alpha = {alpha_loss:.3g}"
    elif alpha_gain == 0:
        reason = "no alpha is left in this run"
    else:
        reason = f"no significant difference: anytime p = {p_gain:.2g} > alpha = {alpha_gain:.3g}"
    return Evidence(
        table=table,
        decision=decision,
        p_gain=p_gain,
        p_loss=p_loss,
        p_gain_fixed=mcnemar_one_sided(table.b, table.c),
        alpha_gain=alpha_gain,
        alpha_loss=alpha_loss,
        enough=not gaps,
        reason=reason,
    )


def look_schedule(min_shots: int, max_shots: int, growth: float = GROWTH) -> Iterator[int]:
    """Total shots at each look: `min_shots`, then `growth` times more each time, `max_shots` at the end."""
    if not 0 < min_shots <= max_shots or growth <= 1:
        raise InputError(
            f"min_shots = {min_shots}, max_shots = {max_shots}, growth = {growth}",
            hint="give 0 < min_shots <= max_shots and growth > 1",
        )
    shots = min_shots
    while shots < max_shots:
        yield shots
        shots = max(shots + 1, round(shots * growth))
    yield max_shots


def confirm(
    more: Callable[[int], PairedTable],
    *,
    min_shots: int,
    max_shots: int,
    alpha_gain: float,
    alpha_loss: float = TOTAL_ALPHA,
    growth: float = GROWTH,
) -> Evidence:
    """One confirmation: take `min_shots`, then more until the evidence decides or `max_shots` are reached.

    more: called with a number of fresh shots, gives the table of at least as many (shots may come in chunks).
    """
    table = PairedTable(0, 0, 0)
    for target in look_schedule(min_shots, max_shots, growth):
        if target <= table.shots:
            continue
        table += more(target - table.shots)
        evidence = decide_evidence(table, alpha_gain=alpha_gain, alpha_loss=alpha_loss)
        if evidence.decision != "undecided":
            break
    return evidence
