"""What a verification takes, and what it means for the history row and for the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autoqec.errors import AutoQECError, InputError
from autoqec.eval.pareto import Admission, Origin, ParetoRow, admit, row_of
from autoqec.eval.report_store import written_report
from autoqec.eval.schema import VerifyReport
from autoqec.io.hashing import sha256_json
from autoqec.runner.schema import canonical_fork
from autoqec.runs.history import rounds_of
from autoqec.runs.journal import Journal
from autoqec.runs.run import Run


def parent_folders(run: Run, journal: Journal) -> list[Path]:
    """Of a compose round's parents: all are verified on the same shots."""
    if isinstance(journal.proposal.fork_from, str):
        return []
    numbers = {row["branch"]: row["round"] for row in rounds_of(run.history.rows())}
    found = [run.files.round(numbers[name]) for name in journal.proposal.fork_from]
    return [files.path for files in found if files.checkpoint.is_file()]


def checked(report: VerifyReport, journal: Journal) -> VerifyReport:
    """A report that is about this round."""
    own = (journal.name.branch, journal.commit_sha)
    if (report.branch, report.commit_sha) not in ((None, None), own):
        raise InputError(f"is about {report.branch} at {report.commit_sha}", where="verification report")
    if isinstance(journal.proposal.fork_from, list) and report.paired_eval_bundle_id is None:
        raise InputError("a compose round is verified on a paired bundle", where="paired_eval_bundle_id")
    return report


def put_on_front(
    folder: Path, report: VerifyReport, journal: Journal, trained: Sequence[str | None]
) -> Admission | None:
    """Whether a verified round is on the front; None for one that is not verified. trained: hashes of config and code."""
    if report.verdict != "VERIFIED":
        return None
    if (
        report.headline.delta <= 0
    ):  # one in a thousand: the test's shots were kind, and the estimate's are not
        return Admission(False, f"it gains nothing on the shots of its {report.headline.source}")
    return admit(folder, front_row(report, origin_of(journal), sha256_json(list(trained))))


def origin_of(journal: Journal) -> dict[str, Any]:
    """What a history row says of the round under the same names, before there is one."""
    return {
        "round": journal.round,
        "round_attempt_id": journal.round_attempt_id,
        "fork_from": journal.proposal.fork_from,
        "compose_mode": journal.proposal.compose_mode,
        "train_seed": journal.name.train_seed,
    }


def front_row(report: VerifyReport, origin: Mapping[str, Any], trained: str | None) -> ParetoRow:
    """The one way from a report to a row of the front. Costs are those that the verifier counted.

    origin: of the round, as its journal or its history row has it. trained: stands for config and code.
    """
    fork_from = origin["fork_from"]
    own = Origin(
        round=origin["round"],
        round_attempt_id=origin["round_attempt_id"],
        fork_from=fork_from,
        fork_from_canonical=None if fork_from is None else canonical_fork(fork_from),
        compose_mode=origin["compose_mode"],
        train_seed=origin["train_seed"],
        config_sha256=trained,
    )
    return row_of(report, own)


def report_left(round_dir: Path, *, is_composed: bool) -> VerifyReport | None:
    """The verifier's own report on the checkpoint there, of a process that was killed before it could say so: another
    verification would be one more confirmation of the run's few."""
    try:
        report = written_report(round_dir)
    except AutoQECError:
        return None
    is_whole = report.composition is not None or not is_composed
    return report if report.bundle_kind == "confirm" and is_whole else None


def verification_of(report: VerifyReport | None, admission: Admission | None) -> dict[str, Any] | None:
    """What the history says of a verification."""
    if report is None:
        return None
    return {
        **figures_of(report),
        "entered_front": admission.entered if admission is not None else False,
        "front_reason": admission.reason if admission is not None else None,
        "front_has_it": admission.is_repeat if admission is not None else False,
    }


def figures_of(report: VerifyReport) -> dict[str, Any]:
    """The report in a few figures."""
    head = report.headline
    return {
        "figures_from": head.source,
        "ler_baseline": head.ler_baseline,
        "ler_holdout": head.ler_candidate,
        "ratio": head.ratio,
        "delta": head.delta,
        "delta_ci": list(head.delta_ci or (None, None)),
        "shots": head.shots,
        "baseline": report.baseline,
        "strongest_baseline": head.strongest,
        "delta_vs_strongest": head.delta_vs_strongest,
        "delta_vs_strongest_ci": head.delta_vs_strongest_ci,
        **_beside(report),
        "delta_of_test": report.delta_vs_baseline_holdout,
        "target": None if report.target is None else report.target.model_dump(mode="json"),
        "paired_eval_bundle_id": head.bundle,
        "composition": None if report.composition is None else report.composition.reading,
        "broken_guards": [guard.name for guard in report.guards if guard.ok is False],
        "notes": report.notes,
        "seconds": report.seconds,
    }


def _beside(report: VerifyReport) -> dict[str, Any]:
    """What stands beside a gain over the plain backend: the gain over the best classical decoder, what the weights add over the
    untrained model, and the time. Nothing where the report has no such estimate."""
    found = report.estimate
    if found is None or found.us_per_shot is None:
        return {}
    best, start = found.vs_strongest, found.untrained
    return {
        "ratio_ci": list(found.ratio_ci),
        "ratio_vs_strongest": None if best is None else best.ratio,
        "ratio_vs_strongest_ci": None if best is None else list(best.ratio_ci),
        "beats_classical": found.beats_classical,
        "ratio_vs_untrained": None if start is None else start.ratio,
        "ratio_vs_untrained_ci": None if start is None else list(start.ratio_ci),
        "us_per_shot": found.us_per_shot,
    }
