"""From a finished verification to its report: the numbers, the verdict, and both files."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import stim

from autoqec import __version__
from autoqec.decoders.baselines.registry import unavailable
from autoqec.decoders.checkpoint_format import MAX_BYTES
from autoqec.errors import AutoQECError
from autoqec.eval import markdown
from autoqec.eval.ablations import UNTRAINED
from autoqec.eval.calibration import calibrations
from autoqec.eval.calibration import remarks as calibration_remarks
from autoqec.eval.evaluation import Evaluation, at_order
from autoqec.eval.guards import guards
from autoqec.eval.guards.ablation import figures
from autoqec.eval.guards.cost_census import census
from autoqec.eval.ledger import Share
from autoqec.eval.paired_row import paired_figures, paired_row
from autoqec.eval.schema import (
    Against,
    BaselineRow,
    Estimate,
    GuardResult,
    PairedFigures,
    PairedRow,
    VerifyReport,
)
from autoqec.eval.tally import Tally
from autoqec.eval.verdict import judge, ratio_remark
from autoqec.eval.verification_state import VerificationState
from autoqec.io import atomic
from autoqec.io.hashing import sha256_bytes
from autoqec.io.locks import locked
from autoqec.io.untrusted_file import read_regular
from autoqec.layout import RoundDir
from autoqec.sandbox.kinds import Sandbox
from autoqec.stats.intervals import paired_difference, wilson
from autoqec.stats.target import Target, check_target


def assemble(
    verification: VerificationState,
    answers: Mapping[str, Sequence[Any]],
    evaluation: Evaluation,
    *,
    bundle_id: str,
    sandbox: Sandbox,
    share: Share,
    no_claim: str | None,
    seconds: float,
    estimate: Estimate | None = None,
    estimated: Tally | None = None,
) -> VerifyReport:
    """estimated: the scores of the estimate."""
    found = [guard.judge(verification, answers[guard.name]) for guard in guards()]
    by_name = {guard.name: guard for guard in found}
    ablation = figures(verification)
    rows = [
        _paired(verification, p)
        for p in verification.env.spec.noise.p
        if verification.tally.has(p, verification.model())
    ]
    head = next(row for row in rows if row.p == verification.reference_p)
    baselines = [
        row for p in verification.env.spec.noise.p for row in _baselines(verification, evaluation, p)
    ]
    strongest = _strongest(head, baselines)
    calibration = calibrations(verification, estimated)
    remarks = [
        *_effect(head, strongest, estimate),
        *winner(ablation.attribution, estimate),
        *_confinement(sandbox),
    ]
    remarks += calibration_remarks(calibration, verification.reference_p)
    verdict, notes = judge(verification.evidence, found, no_claim=no_claim, remarks=remarks)
    subject = verification.subject
    return VerifyReport(
        verdict=verdict,
        ler_holdout=head.ler_candidate,
        ler_holdout_ci=head.ler_candidate_ci,
        delta_ler_holdout=head.delta,
        ler_shuffled=ablation.ler_shuffled,
        ablation_sanity_ok=_ok(by_name, "ablation", "dose_response"),
        holdout_seeds_used=verification.bundle.labels_used(),
        seed_leakage_check_ok=_ok(by_name, "seed_isolation"),
        notes=notes,
        branch=subject.branch if subject.code.commit is not None else None,
        commit_sha=subject.code.commit,
        delta_vs_baseline_holdout=head.delta,
        paired_eval_bundle_id=bundle_id,
        env_name=verification.env.spec.name,
        env_hash=verification.env.content_hash,
        checkpoint_sha256=subject.sha256,
        reference_p=verification.reference_p,
        interval_level=verification.env.spec.eval_protocol.interval_level,
        shots=head.shots,
        shots_cap=evaluation.sizes[1],
        alpha=share.alpha,
        rounds_planned=verification.options.confirmations,
        confirmations_before=share.before,
        decision=verification.evidence.decision,
        p_gain=verification.evidence.p_gain,
        p_gain_exact=verification.evidence.p_gain_fixed,
        baseline=verification.plain.name,
        ler_baseline_holdout=head.ler_baseline,
        delta_ler_ci_low=head.delta_ci[0],
        delta_ler_ci_high=head.delta_ci[1],
        strongest_baseline=strongest.name,
        delta_vs_strongest=strongest.delta,
        delta_vs_strongest_ci=strongest.delta_ci,
        per_p=rows,
        baselines=baselines,
        target=_target(verification, rows),
        guards=found,
        ablation=ablation,
        estimate=estimate,
        calibration=calibration,
        cost=census(verification, answers["cost_census"][0]),
        sandbox_kind=sandbox.name,
        sandboxed=sandbox.confines,
        model_code=subject.code.name,
        bundle_kind=verification.bundle.kind,
        bundle_path=str(verification.bundle.folder),
        circuits={f"{p:g}": verification.env.stream(p) for p in verification.env.spec.noise.p},
        seconds=seconds,
        versions={
            "autoqec": __version__,
            "stim": stim.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    )


def as_json(report: VerifyReport) -> str:
    """The text of verification_report.json, whose hash the ledger keeps."""
    return report.model_dump_json(indent=2) + "\n"


def write(round_dir: Path, report: VerifyReport) -> None:
    """Beside the checkpoint that was verified, and beside no other: a round may have been trained here in the meantime."""
    files = RoundDir(round_dir)
    with locked(files.lock, wait=False):
        if sha256_bytes(read_regular(files.checkpoint, limit=MAX_BYTES)) != report.checkpoint_sha256:
            raise AutoQECError(
                "is not the checkpoint that was verified, so no report is written",
                where=str(files.checkpoint),
                hint="verify the round again",
            )
        atomic.write_text(files.report_text, markdown.render(report))
        atomic.write_text(files.report, as_json(report))


def _ok(guards: Mapping[str, GuardResult], *names: str) -> bool:
    return all(guards[name].ok is not False for name in names)


def estimate_of(verification: VerificationState, evaluation: Evaluation, bundle_id: str) -> Estimate:
    """verification: with the tally and the bundle of the estimate."""
    head = _paired(verification, verification.reference_p)
    others = _baselines(verification, evaluation, head.p, orders=False)
    strongest, untrained = _strongest(head, others), verification.model(UNTRAINED)
    return Estimate(
        **{name: getattr(head, name) for name in PairedFigures.model_fields},
        bundle=bundle_id,
        interval_level=verification.env.spec.eval_protocol.interval_level,
        strongest=strongest.name,
        delta_vs_strongest=strongest.delta,
        delta_vs_strongest_ci=strongest.delta_ci,
        shots_of_strongest=strongest.shots,
        classical=[_against(verification, row.name) for row in others if row.ler is not None],
        untrained=_against(verification, untrained) if verification.tally.has(head.p, untrained) else None,
        us_per_shot=head.us_model + head.us_backend,
    )


def _against(verification: VerificationState, name: str) -> Against:
    """The subject against another decoder, or another form of itself, at the reference p."""
    p = verification.reference_p
    table = verification.tally.table(p, name, verification.model())
    level = verification.env.spec.eval_protocol.interval_level
    shown = name.rpartition("/")[2]
    return Against(
        **paired_figures(table, p=p, baseline=shown, level=level).model_dump(),
        us_per_shot=1e6 * sum(verification.tally.seconds(p, name)) / verification.tally.shots(p, name),
    )


def _paired(verification: VerificationState, p: float) -> PairedRow:
    table = verification.against_plain(p)
    level = verification.env.spec.eval_protocol.interval_level
    backend, model = verification.tally.seconds(p, verification.model())
    return paired_row(
        table,
        p=p,
        baseline=verification.plain.name,
        level=level,
        us_model=1e6 * model / table.shots,
        us_backend=1e6 * backend / table.shots,
    )


def _target(verification: VerificationState, rows: Sequence[PairedRow]) -> Target:
    spec = verification.env.spec
    wanted, level = spec.constraints, spec.eval_protocol.interval_level
    counts = {row.p: (row.both + row.c, row.shots) for row in rows}
    return check_target(counts, target_ler=wanted.target_ler, target_p=wanted.target_p, level=level)


def _baselines(
    verification: VerificationState, evaluation: Evaluation, p: float, *, orders: bool = True
) -> list[BaselineRow]:
    """The other decoders at p. At other orders of ordered statistics the subject is a row of its own."""
    rows = []
    names = {
        choice.name: unavailable(choice, verification.problems[p]) for choice in evaluation.other_choices()
    }
    own = [at_order(verification.key, order) for order in evaluation.other_orders()] if orders else []
    for name in (*names, *own):
        reason, is_candidate = names.get(name), name in own
        shown = name.replace(verification.model(), "predecoder") if is_candidate else name
        if reason is not None or not verification.tally.has(p, name):
            note = reason or "not in this bundle"
            rows.append(BaselineRow(p=p, name=shown, shots=0, note=note, is_candidate=is_candidate))
            continue
        table = verification.tally.table(p, name, verification.model())
        level = verification.env.spec.eval_protocol.interval_level
        cut = table.shots < verification.bundle.shots(p)
        rows.append(
            BaselineRow(
                p=p,
                name=shown,
                shots=table.shots,
                ler=table.baseline_failures / table.shots,
                ler_ci=wilson(table.baseline_failures, table.shots, level),
                delta=table.delta,
                delta_ci=paired_difference(table.b, table.c, table.shots, level),
                us_per_shot=1e6 * sum(verification.tally.seconds(p, name)) / table.shots,
                note=f"slow: {verification.options.baseline_seconds:g} s of one core" if cut else None,
                is_candidate=is_candidate,
            )
        )
    return rows


def _strongest(head: PairedRow, baselines: Sequence[BaselineRow]) -> BaselineRow:
    """The classical decoder with the lowest LER at the reference p."""
    plain = BaselineRow(
        p=head.p,
        name=head.baseline,
        shots=head.shots,
        ler=head.ler_baseline,
        delta=head.delta,
        delta_ci=head.delta_ci,
    )
    at = [row for row in baselines if row.p == head.p and row.ler is not None and not row.is_candidate]
    return min([plain, *at], key=lambda row: row.ler if row.ler is not None else 1.0)


def _effect(head: PairedRow, strongest: BaselineRow, estimate: Estimate | None) -> list[str]:
    """How large it is: on the shots that selected nothing, where there are such."""
    ratio, name, interval = head.ratio, strongest.name, strongest.delta_ci
    if estimate is not None:
        ratio, name, interval = estimate.ratio, estimate.strongest, estimate.delta_vs_strongest_ci
    remarks = []
    if ratio is not None:
        fresh = "" if estimate is None else f", on {estimate.shots} shots that selected nothing"
        remarks.append(f"{ratio_remark(head.baseline, ratio)} at p = {head.p:g}{fresh}")
    if name != head.baseline and interval is not None:
        low, high = interval
        beats = low > 0 and (estimate is None or estimate.beats_classical)
        reading = "beats" if beats else "loses to" if high < 0 else "is level with"
        remarks.append(f"it {reading} the strongest classical baseline here, {name}")
    return remarks


_WINNERS = {"algorithm": "the algorithm wins", "weights": "the weights win", "both": "both win"}


def winner(attribution: str, estimate: Estimate | None) -> list[str]:
    """Who brings the gain. The estimate has more shots than the ablation, so it has the word on what the weights add."""
    if attribution not in _WINNERS:
        return []
    added = estimate.untrained if estimate is not None else None
    if added is None or added.delta_ci[0] <= 0:
        return [f"algorithm or weights: {_WINNERS[attribution]}"]
    wins = _WINNERS["both" if attribution == "algorithm" else attribution]
    by = "" if added.ratio is None else f", LER {added.ratio:.3f}x lower than untrained"
    return [f"algorithm or weights: {wins}{by}"]


def _confinement(sandbox: Sandbox) -> list[str]:
    return [] if sandbox.confines else ["unsandboxed: no sandbox holds on this machine"]
