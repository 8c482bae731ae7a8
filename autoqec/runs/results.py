"""What a run has come to, for its end. The front and its figures are those that the verifier's own reports give (`backing`)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from autoqec.eval.pareto import best_of
from autoqec.runs import run_log
from autoqec.runs.backing import backed_front
from autoqec.runs.front import figures_of
from autoqec.runs.history import rounds_of, seconds_of
from autoqec.runs.plan import Plan
from autoqec.runs.run import Run


def results(run: Run, plan: Plan) -> dict[str, Any]:
    rows = rounds_of(run.history.rows())
    backed = backed_front(run.files.path)
    members = backed.archive.front
    front = []
    for member in members:
        verified = figures_of(backed.reports[member.round])
        told = {"ratio": verified["ratio"], "target": verified["target"], "verification": verified}
        front.append({**member.model_dump(mode="json"), **told})
    verdicts = Counter(str(row.get("verdict") or row["status"]) for row in rows)
    return {
        "run_id": run.run_id,
        "run_dir": str(run.files.path),
        "env": run.info.env,
        "rounds": len(rows),
        "rounds_planned": plan.rounds,
        "verdicts": dict(verdicts),
        "verified": verdicts["VERIFIED"],
        "front": front,
        "not_backed": backed.remark,
        "best": None if (best := best_of(members)) is None else front[members.index(best)],
        "candidates": run_log.candidates(rows) if plan.is_smoke else None,
        "seconds": round(sum(map(seconds_of, rows)), 1),
        "cost_usd": round(sum(row.get("cost_usd") or 0.0 for row in rows), 6),
    }
