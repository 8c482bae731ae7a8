"""`make calibration`: how often the verifier's decision is wrong, how often its intervals hold the truth, and by how much the best
of several rounds is overstated.

Exit code 1 if a promise is broken: false VERIFIED above 2.5%, the coverage of a 95% interval outside 94-96%, or a headline
that is off by more than 3% or whose interval holds the truth in fewer than 95% of the runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from autoqec.commands.output import print_table
from autoqec.stats import calibration as cal
from autoqec.stats.power import shots_needed
from autoqec.stats.sequential import TOTAL_ALPHA, confirmation_alpha
from autoqec.stats.winners_curse import LEVEL, EqualRounds, quoted

SETTINGS = ((1e-2, 0.5), (3e-3, 1.5), (1e-3, 0.1))  # LER, discordant shots per failure of the baseline
LERS = (1e-2, 3e-3, 1e-3)
EFFECT = 0.1
LIMITS = (0.94, 0.96)
LONG_RUN = 50
EQUAL = ((1e-2, 10_000), (1e-2, 20_000), (3e-3, 66_000))  # LER, shots of the smallest test
FLATTERED = 0.03


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=300, help="null campaigns per setting")
    parser.add_argument("--replications", type=int, default=10_000, help="per coverage row")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    start = time.monotonic()
    is_kept = null_campaigns(options.campaigns, options.seed)
    print()
    is_kept &= interval_coverage(options.replications, options.seed)
    print()
    is_kept &= headlines(max(1, options.replications // 10), options.seed)
    outcome = "All promises are kept" if is_kept else "A PROMISE IS BROKEN"
    print(f"\n{outcome} ({time.monotonic() - start:.0f} s)")
    return 0 if is_kept else 1


def null_campaigns(campaigns: int, seed: int) -> bool:
    """The verifier's rate of false VERIFIED over all settings is not above its limit."""
    runs = [cal.Campaign(ler, kappa) for ler, kappa in SETTINGS]
    rows: list[tuple[object, ...]] = []
    totals: dict[str, cal.Rate] = {}
    for name, procedure in cal.PROCEDURES.items():
        trials = campaigns if procedure is cal.verifier else max(1, campaigns // 4)
        found = [cal.false_gains(procedure, run, trials, seed + i) for i, run in enumerate(runs)]
        totals[name] = cal.Rate(sum(rate.hits for rate in found), sum(rate.trials for rate in found))
        for run, rate in zip(runs, found, strict=True):
            rows.append((name, run.rounds, f"{run.ler:g}", run.kappa, *_rate(rate)))
        rows.append((f"{name}, total", "", "", "", *_rate(totals[name])))
    for shared in (0.0, 0.5, 0.8):
        run = replace(runs[0], rounds=LONG_RUN)
        rate = cal.false_gains(partial(cal.reused_holdout, shared=shared), run, campaigns, seed)
        name = f"one holdout, {shared:.0%} of the discordant shots shared"
        rows.append((name, run.rounds, f"{run.ler:g}", run.kappa, *_rate(rate)))
    first = runs[0]
    print_table(
        f"Null campaigns: any false VERIFIED; the limit is {TOTAL_ALPHA:.1%}. {first.rounds} rounds with "
        f"up to {first.retries} retries each, alpha for {first.confirmations} confirmations, "
        f"{first.min_shots:,} to {first.max_shots:,} shots",
        ("procedure", "rounds", "LER", "kappa", "campaigns", "false", "rate", "95% interval"),
        rows,
    )
    verifier = totals["the verifier"]
    return verifier.value <= TOTAL_ALPHA


def interval_coverage(replications: int, seed: int) -> bool:
    """The coverage of every score interval is within its limits."""
    rows: list[tuple[object, ...]] = []
    score: list[cal.Rate] = []
    for ler in LERS:
        shares = cal.cells(ler, 0.5, EFFECT)
        shots = round(shots_needed(ler, EFFECT), -3)
        found = cal.coverage(shares, cal.fixed_size(shots), replications, seed)
        score += [found.difference, found.ratio, found.ler]
        rows.append(("score", f"{ler:g}", f"{shots:,}", replications, *_coverage(found)))
        fewer = max(1, replications // 5)
        found = cal.coverage(shares, cal.fixed_size(shots), fewer, seed, cal.bootstrap_intervals)
        rows.append(("paired bootstrap", f"{ler:g}", f"{shots:,}", fewer, *_coverage(found)))
        stop = cal.sequential_stop(shots // 8, shots * 4, confirmation_alpha(10))
        found = cal.coverage(shares, stop, fewer, seed)
        rows.append(
            (
                "score, at a sequential stop",
                f"{ler:g}",
                f"{shots // 8:,} .. {shots * 4:,}",
                fewer,
                *_coverage(found),
            )
        )
    total = cal.Rate(sum(rate.hits for rate in score), sum(rate.trials for rate in score))
    print_table(
        f"95% intervals that hold the truth; a gain of {EFFECT:.0%}, kappa 0.5",
        (
            "intervals",
            "LER",
            "shots",
            "replications",
            "difference",
            "ratio",
            "LER of the candidate",
            "mean gain / true",
        ),
        rows,
    )
    print(f"Score intervals in total: {total.hits:,} of {total.trials:,} = {total.value:.2%}")
    return all(LIMITS[0] <= rate.value <= LIMITS[1] for rate in score)


def headlines(runs: int, seed: int) -> bool:
    """The best round, quoted by its estimate, is neither flattered nor too sure of itself."""
    rows: list[tuple[object, ...]] = []
    is_kept = True
    for ler, shots in EQUAL:
        run = EqualRounds(ler, min_shots=shots)
        for each in quoted(run, runs, seed):
            ratio, covered = each.mean_over_truth, each.covered
            rows.append(
                (each.name, f"{ler:g}", f"{shots:,}", covered.trials, f"{ratio:.3f}", f"{covered.value:.2%}")
            )
            if each.name.endswith("by its estimate"):
                is_kept &= abs(ratio - 1) <= FLATTERED and covered.interval[1] >= LEVEL
    print_table(
        f"The best of {run.rounds} rounds with the same true gain of {run.effect:.0%}",
        ("figure", "LER", "shots", "runs", "mean gain / true", "95% intervals that hold it"),
        rows,
    )
    return is_kept


def _rate(rate: cal.Rate) -> tuple[int, int, str, str]:
    low, high = rate.interval
    return rate.trials, rate.hits, f"{rate.value:.2%}", f"{low:.2%} .. {high:.2%}"


def _coverage(found: cal.Coverage) -> tuple[str, ...]:
    rates = (found.difference, found.ratio, found.ler)
    return (*(f"{rate.value:.2%}" for rate in rates), f"{found.mean_over_truth:.3f}")


if __name__ == "__main__":
    sys.exit(main())
