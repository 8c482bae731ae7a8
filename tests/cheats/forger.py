"""How a forger of packages works: change a report, then make everything else follow from it, with AutoQEC's own tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autoqec.eval import markdown
from autoqec.eval.paired_row import paired_row
from autoqec.eval.pareto import Archive, add
from autoqec.eval.report import as_json
from autoqec.eval.schema import Estimate, PairedFigures, VerifyReport
from autoqec.eval.scope import MODULES
from autoqec.io.hashing import sha256_json
from autoqec.layout import RunDir
from autoqec.runs import fork_graph, run_log
from autoqec.runs.front import front_row, verification_of
from autoqec.runs.plan import read_plan
from autoqec.runs.run import Run
from autoqec.runs.snapshot import Snapshots
from autoqec.stats.sequential import decide_evidence
from autoqec.stats.table import PairedTable
from cheats.packaged import Packaged

Edit = Callable[[VerifyReport], VerifyReport]


def history(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in RunDir(folder / "run").history.read_text().splitlines()]


def write_history(folder: Path, rows: list[dict[str, Any]]) -> None:
    files = RunDir(folder / "run")
    files.history.write_text("".join(json.dumps(row) + "\n" for row in rows))
    files.history_array.write_text(json.dumps(rows))


def front(folder: Path) -> list[dict[str, Any]]:
    return json.loads(RunDir(folder / "run").pareto.read_text())


def write_front(folder: Path, rows: list[dict[str, Any]]) -> None:
    files = RunDir(folder / "run")
    for path in (files.pareto, files.pareto_preview):
        path.write_text(json.dumps(rows))


def rewrite(made: Packaged, folder: Path, number: int, edit: Edit) -> None:
    """Edits the report of a round in an unpacked package; history, front and pages then follow from it."""
    run = Run(folder / "run", made.run.info)
    files = run.files.round(number)
    report = edit(VerifyReport.model_validate_json(files.report.read_text()))
    files.report.write_text(as_json(report))
    files.report_text.write_text(markdown.render(report))
    rows, archive = history(folder), Archive()
    for row in rows:
        said = VerifyReport.model_validate_json(run.files.round(row["round"]).report.read_text())
        admission = None
        if said.verdict == "VERIFIED":
            code = made.run.repository.git.resolve(f"{row['commit_sha']}:{MODULES}")
            archive, admission = add(archive, front_row(said, row, sha256_json([row["config_hash"], code])))
        row |= {"verdict": said.verdict, "verification": verification_of(said, admission)}
    write_history(folder, rows)
    dump = [
        [row.model_dump(mode="json") for row in part]
        for part in (archive.front, archive.within_noise, archive.dominated)
    ]
    write_front(folder, dump[0])
    run.files.pareto_within_noise.write_text(json.dumps(dump[1]))
    run.files.pareto_dominated.write_text(json.dumps(dump[2]))
    run = Run(folder / "run", made.run.info)
    fork_graph.publish(run)
    plan = read_plan(run.files)
    run_log.publish(run, plan, Snapshots(run, plan).context())


def with_counts(report: VerifyReport, b: int, c: int) -> VerifyReport:
    """The report that another table of failures gives, VERIFIED, with every figure in its place."""
    head = report.per_p[0]
    table = PairedTable(head.shots, b, c, head.both)
    timed = {"us_model": head.us_model, "us_backend": head.us_backend}
    level = float(report.interval_level or 0.95)
    row = paired_row(table, p=head.p, baseline=head.baseline, level=level, **timed)
    evidence = decide_evidence(table, alpha_gain=float(report.alpha or 0.0))
    estimate = Estimate(
        **row.model_dump(include=set(PairedFigures.model_fields)),
        bundle="e" * 64 if report.estimate is None else report.estimate.bundle,
        interval_level=level,
        strongest=row.baseline,
        delta_vs_strongest=row.delta,
        delta_vs_strongest_ci=row.delta_ci,
        shots_of_strongest=row.shots,
    )
    fresh = f"on {row.shots} shots that selected nothing"
    changed = {
        "verdict": "VERIFIED",
        "estimate": estimate,
        "calibration": [],
        "per_p": [row],
        "ler_holdout": row.ler_candidate,
        "ler_holdout_ci": row.ler_candidate_ci,
        "delta_ler_holdout": row.delta,
        "delta_vs_baseline_holdout": row.delta,
        "delta_ler_ci_low": row.delta_ci[0],
        "delta_ler_ci_high": row.delta_ci[1],
        "ler_baseline_holdout": row.ler_baseline,
        "delta_vs_strongest": row.delta,
        "delta_vs_strongest_ci": row.delta_ci,
        "decision": "gain",
        "p_gain": row.p_gain,
        "p_gain_exact": evidence.p_gain_fixed,
        "notes": f"{evidence.reason}; {row.baseline} fails {row.ratio:.3f} times as often at p = {row.p:g}, {fresh}",
        "guards": [
            guard.model_copy(update={"ok": None if guard.ok is None else True}) for guard in report.guards
        ],
    }
    return report.model_copy(update=changed)
