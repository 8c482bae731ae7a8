"""Does the verifier's decision keep its promises? Campaigns without any true gain, and coverage of intervals.

The campaigns run `sequential.confirm`, the loop that the verifier runs, on drawn tables instead of decoded
shots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from autoqec.stats.bootstrap import paired_bootstrap
from autoqec.stats.intervals import Interval, mcnemar_one_sided, paired_difference, paired_ratio, wilson
from autoqec.stats.sequential import (
    TOTAL_ALPHA,
    confirm,
    confirmation_alpha,
    look_schedule,
)
from autoqec.stats.table import PairedTable

Cells = tuple[float, float, float]  # probabilities of b, c, both


def cells(ler: float, kappa: float, effect: float = 0.0) -> Cells:
    """Cells of a comparison with discordant shots at kappa * ler and a gain of effect * ler (see `power`)."""
    b, c = ler * (kappa + effect) / 2, ler * (kappa - effect) / 2
    return b, c, ler - b


def draw(rng: np.random.Generator, shots: int, probabilities: Cells) -> PairedTable:
    b, c, both, _ = rng.multinomial(shots, [*probabilities, 1 - sum(probabilities)]).tolist()
    return PairedTable(shots, b, c, both)


@dataclass(frozen=True)
class Campaign:
    """A run in which no candidate is better than the baseline, driven by someone who wants a VERIFIED.

    Every one of `rounds` candidates is confirmed and, where it was not a gain, up to `retries` times again,
    on fresh shots each time. The run has alpha for `confirmations` confirmations.
    """

    ler: float
    kappa: float
    rounds: int = 10
    retries: int = 2
    confirmations: int = 10
    min_shots: int = 20_000
    max_shots: int = 400_000

    @property
    def shares(self) -> Cells:
        return cells(self.ler, self.kappa)


Procedure = Callable[[np.random.Generator, Campaign], bool]


def verifier(rng: np.random.Generator, campaign: Campaign) -> bool:
    """Any false gain under the verifier's procedure: sequential test, alpha spending, costly retries."""
    return _any_gain(
        rng,
        campaign,
        (
            confirmation_alpha(campaign.confirmations, spent)
            for spent in range(campaign.rounds * (1 + campaign.retries))
        ),
    )


def full_alpha(rng: np.random.Generator, campaign: Campaign) -> bool:
    """The same without alpha spending: every confirmation at the whole 2.5%."""
    return _any_gain(rng, campaign, (TOTAL_ALPHA for _ in range(campaign.rounds * (1 + campaign.retries))))


def _any_gain(rng: np.random.Generator, campaign: Campaign, alphas: Iterator[float]) -> bool:
    for alpha in alphas:
        evidence = confirm(
            lambda shots: draw(rng, shots, campaign.shares),
            min_shots=campaign.min_shots,
            max_shots=campaign.max_shots,
            alpha_gain=alpha,
        )
        if evidence.decision == "gain":
            return True
    return False


def peeking(rng: np.random.Generator, campaign: Campaign) -> bool:
    """One fixed-size test at every look, at alpha / rounds: the sample grows until it is significant."""
    for _ in range(campaign.rounds):
        table = PairedTable(0, 0, 0)
        for target in look_schedule(campaign.min_shots, campaign.max_shots):
            table += draw(rng, target - table.shots, campaign.shares)
            if mcnemar_one_sided(table.b, table.c) <= TOTAL_ALPHA / campaign.confirmations:
                return True
    return False


def reused_holdout(rng: np.random.Generator, campaign: Campaign, shared: float = 0.5) -> bool:
    """One holdout of fixed size for all rounds, each tested at 2.5%: what fresh bundles prevent.

    shared: part of a candidate's discordant shots that it has in common with all other candidates of the run.
    """
    b, c, both = campaign.shares
    common = draw(rng, campaign.max_shots, (b * shared, c * shared, both))
    for _ in range(campaign.rounds):
        own = draw(rng, campaign.max_shots, (b * (1 - shared), c * (1 - shared), 0.0))
        if mcnemar_one_sided(common.b + own.b, common.c + own.c) <= TOTAL_ALPHA:
            return True
    return False


PROCEDURES: dict[str, Procedure] = {
    "the verifier": verifier,
    "without alpha spending": full_alpha,
    "fixed-size test at every look": peeking,
    "one holdout for all rounds": reused_holdout,
}


@dataclass(frozen=True)
class Rate:
    """`hits` of `trials`, with its 95% Wilson interval."""

    hits: int
    trials: int

    @property
    def value(self) -> float:
        return self.hits / self.trials

    @property
    def interval(self) -> Interval:
        return wilson(self.hits, self.trials)


def false_gains(procedure: Procedure, campaign: Campaign, campaigns: int, seed: int) -> Rate:
    """Share of null campaigns in which the procedure calls any candidate a gain."""
    rng = np.random.default_rng(seed)
    return Rate(sum(procedure(rng, campaign) for _ in range(campaigns)), campaigns)


Sampler = Callable[[np.random.Generator, Cells], PairedTable]
Intervals = Callable[[PairedTable], tuple[Interval, Interval, Interval]]  # difference, ratio, candidate's LER


def fixed_size(shots: int) -> Sampler:
    return lambda rng, probabilities: draw(rng, shots, probabilities)


def sequential_stop(min_shots: int, max_shots: int, alpha: float) -> Sampler:
    """The table at which a confirmation ends. It stops early on luck, so its gains are overstated."""

    def sample(rng: np.random.Generator, probabilities: Cells) -> PairedTable:
        return confirm(
            lambda shots: draw(rng, shots, probabilities),
            min_shots=min_shots,
            max_shots=max_shots,
            alpha_gain=alpha,
        ).table

    return sample


def score_intervals(table: PairedTable) -> tuple[Interval, Interval, Interval]:
    return (
        paired_difference(table.b, table.c, table.shots),
        paired_ratio(table.b, table.c, table.both),
        wilson(table.candidate_failures, table.shots),
    )


def bootstrap_intervals(table: PairedTable) -> tuple[Interval, Interval, Interval]:
    found = paired_bootstrap(table, seed=table.b + table.c, resamples=2000)
    return found.difference, found.ratio, found.ler_candidate


@dataclass(frozen=True)
class Coverage:
    """How often each 95% interval held the truth, and the mean estimate of the gain over the true one."""

    difference: Rate
    ratio: Rate
    ler: Rate
    mean_over_truth: float


def coverage(
    probabilities: Cells,
    sample: Sampler,
    replications: int,
    seed: int,
    intervals: Intervals = score_intervals,
) -> Coverage:
    b, c, both = probabilities
    truth = (b - c, (both + b) / (both + c), both + c)
    rng = np.random.default_rng(seed)
    hits = [0, 0, 0]
    total = 0.0
    for _ in range(replications):
        table = sample(rng, probabilities)
        total += table.delta
        for i, (low, high) in enumerate(intervals(table)):
            hits[i] += low <= truth[i] <= high
    difference, ratio, ler = (Rate(hit, replications) for hit in hits)
    return Coverage(difference, ratio, ler, total / replications / truth[0])
