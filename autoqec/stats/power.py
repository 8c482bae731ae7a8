"""How many shots a comparison takes, and what a number of shots can show.

The model of a comparison: the baseline fails with probability `ler`, the candidate with ler * (1 - effect),
and their discordant shots (exactly one of the two fails) come at kappa * ler. kappa is the number of
discordant shots per failure of the baseline: 0 for decoders that fail on the same shots, 2 - effect for
decoders that fail independently at a low rate. A candidate that repairs a share `effect` of the failures
differs on at least as many shots, so kappa is never taken below `effect`. Fewer shots are needed the smaller
kappa is, which is what pairing buys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autoqec.errors import InputError
from autoqec.stats.sequential import (
    GROWTH,
    MIN_BASELINE_FAILURES,
    MIN_DISCORDANT,
    TOTAL_ALPHA,
    log_e_value,
)

KAPPA = 0.5
POWER = 0.95
MAX_SHOTS = 10**15


@dataclass(frozen=True)
class Comparison:
    """Probabilities of a discordant shot, and of a win of the candidate among those."""

    discordance: float
    theta: float

    @classmethod
    def of(cls, ler: float, effect: float, kappa: float) -> Comparison:
        _check("ler", ler, 1 / MAX_SHOTS <= ler <= 0.5, f"{1 / MAX_SHOTS:g} <= ler <= 0.5")
        _check(
            "effect", effect, 0 < effect <= 1, "0 < effect <= 1: the share of the baseline's failures removed"
        )
        _check("kappa", kappa, 0 < kappa <= 2 - effect, "0 < kappa <= 2 - effect")
        kappa = max(kappa, effect)
        return cls(kappa * ler, (kappa + effect) / (2 * kappa))


def power_at(
    shots: int, ler: float, effect: float, *, alpha: float = TOTAL_ALPHA, kappa: float = KAPPA
) -> float:
    """Probability that the exact one-sided McNemar test finds the gain on `shots` shots, fixed in advance."""
    from scipy.stats import binom  # here: it takes a second or two, and most readers of a run never ask

    _check("shots", shots, shots >= 0, "shots >= 0")
    _check("alpha", alpha, 0 < alpha < 0.5, "0 < alpha < 0.5")
    case = Comparison.of(ler, effect, kappa)
    mean = shots * case.discordance
    reach = 8 * math.sqrt(mean) + 20
    low, high = max(0, math.floor(mean - reach)), min(shots, math.ceil(mean + reach))
    discordant = np.arange(low, high + 1, max(1, (high - low) // 4000))
    weight = binom.pmf(discordant, shots, case.discordance)
    weight /= weight.sum()
    edge = np.asarray(binom.ppf(alpha, discordant, 0.5))  # at or one above the last rejection
    losses_allowed = edge - (binom.cdf(edge, discordant, 0.5) > alpha)
    return float(np.sum(weight * binom.cdf(losses_allowed, discordant, 1 - case.theta)))


def shots_needed(
    ler: float,
    effect: float,
    power: float = POWER,
    *,
    alpha: float = TOTAL_ALPHA,
    kappa: float = KAPPA,
) -> int:
    """Shots at which the exact one-sided McNemar test at `alpha` finds a gain with probability `power`.

    effect: share of the baseline's failures that the candidate removes. kappa: discordant shots per failure
    of the baseline (see the module). The discordant shots are random in number, and the power is averaged
    over that.
    """
    _check("power", power, alpha < power < 1, "alpha < power < 1")
    high = max(1, round(1 / Comparison.of(ler, effect, kappa).discordance))
    while power_at(high, ler, effect, alpha=alpha, kappa=kappa) < power:
        high *= 2
        if high > MAX_SHOTS:
            raise InputError(
                f"ler = {ler:g} with effect = {effect:g} takes more than {MAX_SHOTS:.0e} shots",
                hint="ask for a larger effect or a higher ler",
            )
    low = high // 2
    while high - low > max(1, high // 2000):  # the sawtooth of a discrete test is finer than this
        middle = (low + high) // 2
        if power_at(middle, ler, effect, alpha=alpha, kappa=kappa) < power:
            low = middle
        else:
            high = middle
    return high


def detectable_effect(
    shots: int,
    ler: float,
    power: float = POWER,
    *,
    alpha: float = TOTAL_ALPHA,
    kappa: float = KAPPA,
) -> float | None:
    """The smallest effect that `shots` shots find with probability `power`; None if there is none."""

    from scipy.optimize import brentq

    def lack(effect: float) -> float:
        return power_at(shots, ler, effect, alpha=alpha, kappa=min(kappa, 2 - effect)) - power

    _check("power", power, alpha < power < 1, "alpha < power < 1")
    if lack(1.0) < 0:
        return None
    minimum = 1e-6
    return minimum if lack(minimum) >= 0 else float(brentq(lack, minimum, 1.0, rtol=1e-4))


@dataclass(frozen=True)
class SequentialShots:
    """Shots at which the sequential test finds a true gain: on average, and in `power` of the cases."""

    mean: int
    quantile: int


def sequential_shots(
    ler: float,
    effect: float,
    power: float = POWER,
    *,
    alpha: float = TOTAL_ALPHA,
    kappa: float = KAPPA,
    min_shots: int = 1,
    growth: float = GROWTH,
    replications: int = 4000,
    seed: int = 0,
) -> SequentialShots:
    """Shots until `decide_evidence` says "gain", by simulation with the verifier's looks and minima."""
    _check("power", power, alpha < power < 1, "alpha < power < 1")
    case = Comparison.of(ler, effect, kappa)
    rng = np.random.default_rng(seed)
    floor = max(min_shots, 1)
    p_b = case.discordance * case.theta
    cells = np.array([p_b, case.discordance - p_b, max(ler - p_b, 0.0)])
    cells = np.append(cells, 1 - cells.sum())
    counts = np.zeros((replications, 4), dtype=np.int64)
    stopped_at = np.zeros(replications)
    running = np.arange(replications)
    shots, target = 0, floor
    while running.size:
        if target > MAX_SHOTS:
            raise InputError(
                f"ler = {ler:g} with effect = {effect:g} takes more than {MAX_SHOTS:.0e} shots",
                hint="ask for a larger effect or a higher ler",
            )
        counts[running] += rng.multinomial(target - shots, cells, size=running.size)
        shots = target
        b, c, both = counts[running, 0], counts[running, 1], counts[running, 2]
        enough = (b + c >= MIN_DISCORDANT) & (b + both >= MIN_BASELINE_FAILURES)
        stop = enough & (log_e_value(b, c) >= -math.log(alpha))
        stopped_at[running[stop]] = shots
        running = running[~stop]
        target = max(target + 1, round(target * growth))
    return SequentialShots(math.ceil(stopped_at.mean()), math.ceil(np.quantile(stopped_at, power)))


def _check(name: str, value: float, holds: bool, rule: str) -> None:
    if not holds:
        raise InputError(f"{value:g} is out of range", where=name, hint=f"give {rule}")
