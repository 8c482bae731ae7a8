"""What a run has come to, for its end."""

from __future__ import annotations

from collections import Counter
from typing import Any

from autoqec.eval.pareto import best_of, read_front
from autoqec.runs import run_log
from autoqec.runs.history import rounds_of, seconds_of
from autoqec.runs.plan import Plan
from autoqec.runs.run import Run


def results(run: Run, plan: Plan) -> dict[str, Any]:
    rows = rounds_of(run.history.rows())
    members = read_front(run.files.path)
    front = [member.model_dump(mode="json") for member in members]
    by_round = {row["round"]: row for row in rows}
    for member in front:
        row = by_round.get(member["round"], {})  # none yet, of a round that was killed on its way to history
        verified = row.get("verification") or {}
        member["ratio"], member["target"] = verified.get("ratio"), verified.get("target")
        member["verification"] = verified
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
        "best": None if (best := best_of(members)) is None else front[members.index(best)],
        "candidates": run_log.candidates(rows) if plan.is_smoke else None,
        "seconds": round(sum(map(seconds_of, rows)), 1),
        "cost_usd": round(sum(row.get("cost_usd") or 0.0 for row in rows), 6),
    }
