"""One table of paired failures -> its row in a report: every figure follows from the counts."""

from __future__ import annotations

from autoqec.eval.schema import PairedFigures, PairedRow
from autoqec.stats.intervals import paired_difference, paired_ratio, wilson
from autoqec.stats.sequential import anytime_p, decide_evidence
from autoqec.stats.table import PairedTable


def paired_figures(table: PairedTable, *, p: float, baseline: str, level: float) -> PairedFigures:
    ratio_low, ratio_high = paired_ratio(table.b, table.c, table.both, level)
    return PairedFigures(
        p=p,
        shots=table.shots,
        baseline=baseline,
        ler_baseline=table.baseline_failures / table.shots,
        ler_baseline_ci=wilson(table.baseline_failures, table.shots, level),
        ler_candidate=table.candidate_failures / table.shots,
        ler_candidate_ci=wilson(table.candidate_failures, table.shots, level),
        delta=table.delta,
        delta_ci=paired_difference(table.b, table.c, table.shots, level),
        ratio=table.baseline_failures / table.candidate_failures if table.candidate_failures else None,
        ratio_ci=(ratio_low, None if ratio_high == float("inf") else ratio_high),
        b=table.b,
        c=table.c,
        both=table.both,
    )


def paired_row(
    table: PairedTable, *, p: float, baseline: str, level: float, us_model: float, us_backend: float
) -> PairedRow:
    return PairedRow(
        **paired_figures(table, p=p, baseline=baseline, level=level).model_dump(),
        p_gain=anytime_p(table.b, table.c),
        p_loss=anytime_p(table.c, table.b),
        enough=decide_evidence(table, alpha_gain=0.0).enough,
        us_model=us_model,
        us_backend=us_backend,
    )
