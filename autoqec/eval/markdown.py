"""A verification report for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autoqec.eval.calibration_schema import Calibration
from autoqec.eval.schema import VerifyReport

_MARK = {True: "ok", False: "NOT OK", None: "n/a"}


def render(report: VerifyReport) -> str:
    sections = [
        _head(report),
        _estimate(report),
        _per_p(report),
        _baselines(report),
        _guards(report),
        _ablation(report),
        _calibration(report),
    ]
    sections += [_cost(report), _composition(report), _provenance(report)]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(report: VerifyReport) -> str:
    lines = [f"# {report.verdict}: {report.env_name}", "", report.notes, ""]
    low, high = report.ler_holdout_ci
    lines.append(
        f"At p = {report.reference_p:g}, {report.shots} shots: LER {report.ler_holdout:.4g} "
        f"[{low:.4g}, {high:.4g}] against {report.ler_baseline_holdout:.4g} of {report.baseline}; "
        f"difference {report.delta_ler_holdout:.4g} [{report.delta_ler_ci_low:.4g}, {report.delta_ler_ci_high:.4g}]. "
        f"Anytime p = {report.p_gain:.3g} (exact McNemar as if of fixed size: {report.p_gain_exact:.3g}), "
        f"alpha = {report.alpha:.3g} ({_spending(report)})."
    )
    if report.interval_level is not None:
        lines[-1] += f" All intervals are at level {report.interval_level:g}."
    if report.target is not None:
        lines += ["", f"Target: {report.target.text}."]
    return "\n".join(lines)


def _estimate(report: VerifyReport) -> str:
    if (found := report.estimate) is None:
        return ""
    text = (
        f"{found.shots} shots at p = {found.p:g} that selected nothing: LER {found.ler_candidate:.4g} against "
        f"{found.ler_baseline:.4g} of {found.baseline}; difference {found.delta:.4g} [{_cell(found.delta_ci)}], "
        f"ratio {_cell(found.ratio)} [{_cell(found.ratio_ci)}]."
    )
    if found.strongest != found.baseline and found.delta_vs_strongest_ci is not None:
        text += (
            f" Against {found.strongest}, the strongest classical decoder on these shots: "
            f"{_cell(found.delta_vs_strongest)} [{_cell(found.delta_vs_strongest_ci)}] on {found.shots_of_strongest} shots."
        )
    if (start := found.untrained) is not None:
        text += (
            f" The same computation untrained: LER {start.ler_baseline:.4g}, {_cell(start.ratio)} times the candidate's "
            f"[{_cell(start.ratio_ci)}]: that is what the weights add."
        )
    if found.us_per_shot is not None:
        text += f" Model and backend took {found.us_per_shot:.3g} us per shot."
    return f"## Size of the effect\n\n{text} This is the figure to quote: that of the test was stopped when it was large."


def _spending(report: VerifyReport) -> str:
    if report.confirmations_before is None:
        return "none is spent: these shots confirm nothing"
    return f"confirmation {report.confirmations_before + 1} of {report.rounds_planned} planned"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return f"{_cell(value[0])} .. {_cell(value[1])}"
    return str(value).replace("|", "\\|")


def _per_p(report: VerifyReport) -> str:
    heads = (
        "p",
        "shots",
        f"{report.baseline} LER",
        "candidate LER",
        "difference",
        "ratio",
        "interval",
        "b",
        "c",
        "evidence",
    )
    rows = [
        (
            row.p,
            row.shots,
            row.ler_baseline,
            row.ler_candidate,
            row.delta_ci,
            row.ratio,
            row.ratio_ci,
            row.b,
            row.c,
            f"p = {min(row.p_gain, row.p_loss):.2g}" if row.enough else "too few failures",
        )
        for row in report.per_p
    ]
    return "## Per error rate\n\n" + _table(heads, rows)


def _baselines(report: VerifyReport) -> str:
    if not report.baselines:
        return ""
    rows = [
        (row.p, row.name, row.shots, row.ler, row.ler_ci, row.delta_ci, row.us_per_shot, row.note)
        for row in report.baselines
    ]
    heads = ("p", "decoder", "shots", "LER", "interval", "its LER minus the candidate's", "us/shot", "")
    return (
        f"## Other decoders on the same shots\n\nStrongest at p = {report.reference_p:g}: {report.strongest_baseline}.\n\n"
        + _table(heads, rows)
    )


def _guards(report: VerifyReport) -> str:
    rows = [(guard.name, _MARK[guard.ok], guard.number, guard.text) for guard in report.guards]
    return "## Guards\n\n" + _table(("guard", "", "number", ""), rows)


def _ablation(report: VerifyReport) -> str:
    if (found := report.ablation) is None:
        return ""

    def form(name: str, shots: int | None) -> str:
        return name if shots in (None, found.shots) else f"{name}, on {shots} shots"

    lers = (
        ("baseline", found.ler_baseline),
        ("untrained algorithm", found.ler_untrained),
        ("as submitted", found.ler_real),
        *((form(f"noise {dose.dose:g}", dose.shots), dose.ler) for dose in found.doses),
        (form("shuffled", found.shots_shuffled), found.ler_shuffled),
        (form("re-initialised", found.shots_reinitialised), found.ler_reinitialised),
    )
    text = (
        f"{found.shots} shots. The algorithm alone gains {found.algorithm_gain:.4g} "
        f"[{found.algorithm_gain_ci[0]:.4g}, {found.algorithm_gain_ci[1]:.4g}], the weights add {found.weights_gain:.4g} "
        f"[{found.weights_gain_ci[0]:.4g}, {found.weights_gain_ci[1]:.4g}]. Attribution: {found.attribution}."
    )
    return f"## Where the gain comes from\n\n{text}\n\n" + _table(("weights", "LER"), lers)


def _calibration(report: VerifyReport) -> str:
    if not report.calibration:
        return ""
    heads = (
        "p",
        "shots of",
        "shots",
        "failures",
        "interval",
        "expected",
        "expected, mapped",
        "scale, offset",
    )
    sums = [
        (
            row.p,
            row.source,
            row.shots,
            row.failures,
            row.failures_ci,
            row.expected,
            row.mapped,
            None if row.scale is None else f"{row.scale:.3g}, {row.offset:.3g}",
        )
        for row in report.calibration
    ]
    parts = [_table(heads, sums)]
    for row in report.calibration:
        if row.p == report.reference_p:
            parts += [_reliability(row), _kept(row)]
    text = (
        "Each prediction has log-odds of being right, which this side computes from the model's answers; no verdict depends on them. Expected: "
        "failures that they stand for, as they are. Mapped: after a scale and an offset that were fitted on other shots."
    )
    return "## Confidence\n\n" + "\n\n".join([text, *parts])


def _reliability(row: Calibration) -> str:
    bins = [
        (f"{_bound(each.low)} .. {_bound(each.high)}", each.shots, each.failures, each.failures_ci, each.expected, each.mapped)
        for each in row.bins
    ]  # fmt: skip
    heads = (f"log-odds, p = {row.p:g}", "shots", "failures", "interval", "expected", "expected, mapped")
    return _table(heads, bins)


def _kept(row: Calibration) -> str:
    rows = [
        (f"{each.share:.1%}", each.below, each.failures, each.ler, each.ler_ci, each.factor, each.factor_ci)
        for each in row.kept
    ]
    heads = (
        "least sure discarded",
        "log-odds up to",
        "failures left",
        "LER",
        "interval",
        "times lower",
        "interval",
    )
    return _table(heads, rows)


def _bound(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _cost(report: VerifyReport) -> str:
    if (cost := report.cost) is None:
        return ""
    timed = "model" if cost.cascade is None else "first stage"
    rows: list[tuple[object, ...]] = [
        ("FLOPs per syndrome", cost.flops_per_syndrome, cost.declared_flops_per_syndrome),
        ("parameters", cost.n_params, cost.declared_n_params),
        ("bytes", cost.n_bytes, None),
        (f"{timed} alone, one shot, us (median, p99)", (cost.latency_us_p50, cost.latency_us_p99), None),
        (f"{timed} alone in bulk, us per shot", cost.bulk_us_per_shot, None),
    ]
    if (found := cost.cascade) is not None:
        rows += [(f"stage {number}, FLOPs", each, None) for number, each in enumerate(found.stage_flops, 1)]
        rows.append(("all stages, FLOPs", found.worst_flops, None))
        times = (found.decoder_us_p50, found.decoder_us_p99, found.decoder_us_p999)
        rows.append(("whole decoder, one shot, us (median, p99, p99.9)", ", ".join(map(_cell, times)), None))
        for row in found.per_p:
            shares = ", ".join(f"{100 * share:.3g}%" for share in row.shares[1:])
            rows.append((f"p = {row.p:g}, shots that reach the later stages", shares, None))
            rows.append((f"p = {row.p:g}, FLOPs, and with the upper 95% bound", row.flops_range, None))
    over = "".join(f"\n\nOver budget: {line}." for line in cost.over_budget)
    return "## Cost\n\n" + _table(("", "measured", "declared"), rows) + over


def _composition(report: VerifyReport) -> str:
    if (found := report.composition) is None:
        return ""
    parents = ", ".join(
        f"{name} {delta:.4g}" for name, delta in zip(found.parents, found.parent_deltas, strict=True)
    )
    return (
        f"## Composition: {found.reading}\n\nGain of the child {found.child_delta:.4g}; of its parents on the same shots: "
        f"{parents}; it composes above {found.threshold:g} times their sum."
    )


def _provenance(report: VerifyReport) -> str:
    rows = [
        ("bundle", f"{report.paired_eval_bundle_id} ({report.bundle_kind})"),
        ("estimate bundle", None if report.estimate is None else report.estimate.bundle),
        ("checkpoint", report.checkpoint_sha256),
        ("model code", report.model_code),
        ("sandbox", report.sandbox_kind if report.sandboxed else "unsandboxed"),
        (
            "holdout labels",
            f"{len(report.holdout_seeds_used)} from {min(report.holdout_seeds_used, default=0)}",
        ),
        ("cap", report.shots_cap),
        ("seconds", report.seconds),
    ]
    return "## Provenance\n\n" + _table(("", ""), rows)
