"""At the reference p nothing can be measured: the plain decoder hardly ever fails, or is no better than guessing."""

from __future__ import annotations

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Change, Evidence, Finding
from autoqec.report.reading import Row, real
from autoqec.stats.intervals import wilson
from autoqec.stats.power import detectable_effect
from autoqec.stats.sequential import MIN_BASELINE_FAILURES

SATURATED = 0.8
"""Of the LER of guessing."""

LEAST_EFFECT = 0.5
"""A comparison that can only see gains of more than half of the failures is no comparison."""


def is_measurable(case: RoundCase) -> bool:
    return find(case) is None


def find(case: RoundCase) -> Finding | None:
    plain, shots = case.figures.get("ler_plain_classical"), case.shots()
    if case.status != "ok" or plain is None or not shots:
        return None
    if plain >= SATURATED * _guessing(case, plain):
        return _saturated(case, plain, shots)
    seen = _detectable(shots, plain)
    if seen is not None and (seen <= LEAST_EFFECT or case.gains):
        return None
    failures = round(plain * shots)
    low, high = wilson(failures, shots)
    needed = round(MIN_BASELINE_FAILURES / (plain or high))
    evidence = [*_headline(case, failures, shots), Evidence("95% interval of the plain LER", [low, high])]
    if seen is not None:
        evidence.append(Evidence("least share of failures removed that these shots can show", round(seen, 2)))
    better = _better_p(case)
    return Finding(
        "high" if seen is None else "medium",
        "the plain decoder hardly fails at this p, so that no gain can be seen",
        tuple(evidence),
        f"take a higher p in the environment's sweep, or about {needed:.2g} validation shots "
        f"({MIN_BASELINE_FAILURES} failures) at this one; autoqec power counts them for a given gain",
        env_change=better,
    )


def _saturated(case: RoundCase, plain: float, shots: int) -> Finding:
    return Finding(
        "high",
        "the plain decoder is about as good as guessing at this p: far above the threshold there is nothing to improve",
        (*_headline(case, round(plain * shots), shots), Evidence("LER of guessing", _guessing(case, plain))),
        "lower noise.p until the plain decoder's LER is below 0.05: autoqec baseline shows it along the sweep",
        env_change=_better_p(case),
    )


def _headline(case: RoundCase, failures: int, shots: int) -> list[Evidence]:
    counted = Evidence(f"{case.source}: per_p failures of the plain decoder", f"{failures} in {shots} shots")
    return [*case.metric("reference_p", "ler_plain_classical", "ler_predecoder"), counted]


def _guessing(case: RoundCase, plain: float) -> float:
    """Of k observables, all are right by chance once in 2^k. Unknown k: one, unless more failures than that speak against it."""
    if case.around.problem is not None:
        return 1.0 - 0.5**case.around.problem.n_observables
    return 0.5 if plain < 0.6 else 1.0


def _detectable(shots: int, ler: float) -> float | None:
    return detectable_effect(shots, ler) if 0 < ler <= 0.5 else None if ler <= 0 else 0.0


def _better_p(case: RoundCase) -> Change | None:
    """Another p of the sweep at which the same shots show the most, where there is one."""

    def sees(row: Row) -> float | None:
        ler, shots = real(row.get("ler_plain")), real(row.get("shots"))
        if ler is None or not shots or ler >= SATURATED * _guessing(case, ler):
            return None
        return _detectable(int(shots), ler)

    rows = [row for row in case.figures.get("per_p") or [] if isinstance(row, dict)]
    found = [(seen, row["p"]) for row in rows if (seen := sees(row)) is not None and seen <= LEAST_EFFECT]
    here = case.figures.get("reference_p")
    best = min(found, default=None)
    return None if best is None or best[1] == here else Change("noise.reference_p", here, best[1])
