"""What a person reads of a run: `log.md`, `summary.md` and, of a smoke run, `candidate_pareto.json`.

All of them are written anew from history with every round, so that a crash cannot leave half an entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from autoqec.agents.fences import one_line
from autoqec.agents.graph_text import gain, parents
from autoqec.eval.pareto import ParetoRow, read_archive
from autoqec.io import atomic
from autoqec.runs import headline
from autoqec.runs.history import seconds_of
from autoqec.runs.plan import Plan
from autoqec.runs.run import Run
from autoqec.runs.summary import summary_page
from autoqec.search.proposal import RoundContext, Row, short_name
from autoqec.stats.pareto import non_dominated
from autoqec.stats.target import Target


def publish(run: Run, plan: Plan, context: RoundContext) -> None:
    for path, text in pages(run, plan, context).items():
        atomic.write_text(path, text)


def pages(run: Run, plan: Plan, context: RoundContext) -> dict[Path, str]:
    """The text of each file: a function of plan, history and front."""
    summary = summary_page(run, plan, context)
    if plan.is_smoke:
        front = json.dumps(candidates(context.history), indent=2, allow_nan=False)
        return {run.files.summary: summary, run.files.candidate_pareto: front + "\n"}
    return {run.files.summary: summary, run.files.log: "\n".join(_log(run, plan, context)) + "\n"}


def candidates(rows: Sequence[Row]) -> list[Row]:
    """The front of what validation measured, not verified: rounds with a gain that no other dominates."""
    axes = ("delta_ler", "flops_per_syndrome", "n_params")
    measured = [row for row in rows if row["status"] == "ok" and None not in map(row.get, axes)]
    gaining = [row for row in measured if row["delta_ler"] > 0]
    front = non_dominated(gaining, lambda row: (row["delta_ler"], row["flops_per_syndrome"], row["n_params"]))
    kept = (
        "round",
        "round_attempt_id",
        "branch",
        "commit_sha",
        *axes,
        "delta_ler_ci_low",
        "delta_ler_ci_high",
    )
    ranked = sorted(front, key=lambda row: -row["delta_ler"])
    return [{name: row.get(name) for name in kept} for row in ranked]


def _log(run: Run, plan: Plan, context: RoundContext) -> Iterator[str]:
    protocol = context.env.spec.eval_protocol
    shots = plan.shots_verify(protocol)
    yield f"# Run {run.run_id}: {one_line(context.env.name, 80)}\n"
    yield f"Proposer {plan.proposer}, profile {plan.profile}, {plan.rounds} rounds planned, started {run.info.created_at}."
    less = (
        "" if shots >= protocol.min_shots_verify else f", of the {protocol.min_shots_verify} that prod takes"
    )
    yield f"Verified on at least {shots} fresh shots per p{less}.\n"
    for row in context.history:
        yield from _entry(row)
    yield "## Front\n"
    archive = read_archive(run.files.path)
    verified = {row.get("round"): row.get("verification") or {} for row in context.history}
    for member in archive.front:
        yield f"{_member(member)}; {headline.sentence(verified.get(member.round, {}))}".rstrip("; ")
    if not archive.front:
        yield "No verified round yet."
    if archive.within_noise:
        yield "\n## Dominated, within the noise of the front\n"
        yield from map(_member, archive.within_noise)


def _member(row: ParetoRow) -> str:
    low, high = row.delta_ci
    return (
        f"- {short_name(row.branch)}: delta {row.delta_vs_baseline_holdout:.3g} ({low:.3g} .. {high:.3g}), "
        f"{row.flops_per_syndrome / 1e6:.3g} MFLOP, {row.n_params} parameters"
    )


def _entry(row: Row) -> Iterator[str]:
    idea, analysis = row.get("idea") or {}, row.get("analysis") or {}
    yield f"## Round {row.get('round')}: {one_line(str(row.get('hypothesis') or ''), 200)}\n"
    if idea.get("rationale"):
        yield f"- Why: {one_line(str(idea['rationale']), 400)}"
    yield f"- From {', '.join(map(short_name, parents(row))) or '-'}" + (
        f"; branch {row['branch']} at {str(row.get('commit_sha'))[:12]}"
        if row.get("branch")
        else "; no branch"
    )
    if row["status"] != "ok":
        yield f"- {row['status']}: {one_line(str(row.get('status_reason') or ''), 400)}"
    elif row.get("delta_ler") is not None:
        flops, params = row.get("flops_per_syndrome"), row.get("n_params")
        cost = "" if flops is None else f"; {flops / 1e6:.3g} MFLOP, {params} parameters"
        yield f"- Measured: {gain(row)}{cost}"
        if row.get("target"):
            yield f"- Target: {one_line(Target.model_validate(row['target']).text, 300)}"
    for line in row.get("over_budget") or ():
        yield f"- Over budget: {line}"
    if analysis:
        yield f"- Analyst: {analysis.get('verdict')}. {one_line(str(analysis.get('summary_1line')), 400)}"
        for correction in analysis.get("corrections") or ():
            yield f"- Corrected: {one_line(str(correction), 300)}"
        yield f"- Next: {one_line(str(analysis.get('next_hypothesis_seed')), 300)}"
    if row.get("verify_error"):
        yield f"- Not verified: {one_line(str(row['verify_error']), 400)}"
    if verified := row.get("verification"):
        yield f"- Verifier: {row['verdict']} on {verified.get('shots')} shots. {one_line(str(verified.get('notes')), 400)}"
        if told := headline.sentence(verified):
            yield f"- Headline: {told}"
        if verified.get("target"):
            yield f"- Target on fresh shots: {one_line(Target.model_validate(verified['target']).text, 300)}"
        if verified.get("front_reason"):
            entered = "entered" if verified.get("entered_front") else "did not enter"
            yield f"- Front: {entered}; {one_line(str(verified['front_reason']), 200)}"
    paid = "" if row.get("cost_usd") is None else f", ${row['cost_usd']:.4f}"
    yield f"- Took {seconds_of(row):.0f} s{paid}\n"
