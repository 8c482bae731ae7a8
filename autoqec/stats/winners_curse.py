"""How much the best of several rounds is overstated: by the shots that chose it, and by shots that chose nothing.

A run of equal rounds, each confirmed by the verifier's own `confirm`. The round with the largest gain in its test is the
headline. Its test was stopped when the gain was large, and it was chosen for being the largest: quoted by that test, it is
too large twice over. The estimate is on other shots, of a number fixed before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autoqec.stats.calibration import Rate, cells, draw
from autoqec.stats.intervals import paired_difference
from autoqec.stats.sequential import confirm, confirmation_alpha
from autoqec.stats.table import PairedTable

LEVEL = 0.95


@dataclass(frozen=True)
class EqualRounds:
    """A run whose `rounds` candidates all have the same true gain, `effect` times the baseline's LER."""

    ler: float
    effect: float = 0.15
    kappa: float = 0.5
    rounds: int = 12
    confirmations: int = 20
    min_shots: int = 20_000
    cap: int = 5

    def verified(self, rng: np.random.Generator) -> list[PairedTable]:
        """The tests of those that were verified."""
        shares = cells(self.ler, self.kappa, self.effect)
        tests = (
            confirm(
                lambda shots: draw(rng, shots, shares),
                min_shots=self.min_shots,
                max_shots=self.cap * self.min_shots,
                alpha_gain=confirmation_alpha(self.confirmations, spent),
            )
            for spent in range(self.rounds)
        )
        return [test.table for test in tests if test.decision == "gain"]

    def estimate(self, rng: np.random.Generator) -> PairedTable:
        return draw(rng, self.min_shots, cells(self.ler, self.kappa, self.effect))


@dataclass(frozen=True)
class Quoted:
    """The figure of a headline over runs: mean over the true gain, and how often its interval holds the truth."""

    name: str
    mean_over_truth: float
    covered: Rate


def quoted(run: EqualRounds, runs: int, seed: int) -> list[Quoted]:
    """Ways to quote the best of a run, on the same simulated runs."""
    rng = np.random.default_rng(seed)
    truth = run.effect * run.ler
    found: dict[str, list[tuple[float, bool]]] = {}

    def enter(name: str, table: PairedTable, level: float) -> None:
        low, high = paired_difference(table.b, table.c, table.shots, level)
        found.setdefault(name, []).append((table.delta, low <= truth <= high))

    for _ in range(runs):
        tests = run.verified(rng)
        if not tests:
            continue
        estimates = [run.estimate(rng) for _ in tests]
        best = max(range(len(tests)), key=lambda i: tests[i].delta)
        simultaneous = 1 - (1 - LEVEL) / len(tests)
        enter("best by its test, quoted by its test", tests[best], LEVEL)
        enter("best by its test, quoted by its estimate", estimates[best], simultaneous)
        enter("largest estimate of the front", max(estimates, key=lambda table: table.delta), simultaneous)
    return [
        Quoted(
            name,
            float(np.mean([delta for delta, _ in rows])) / truth,
            Rate(sum(holds for _, holds in rows), len(rows)),
        )
        for name, rows in found.items()
    ]
