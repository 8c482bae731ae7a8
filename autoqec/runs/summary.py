"""`summary.md`: a run on one page, for people. What was searched, what was found, and how to do it again."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from autoqec.agents.fences import one_line
from autoqec.agents.graph_text import gain
from autoqec.runs.history import seconds_of
from autoqec.runs.plan import CHAT, Plan
from autoqec.runs.run import Run
from autoqec.search.proposal import RoundContext, Row, short_name

_MOST = 20
"""Rounds and members of the front that are listed; log.md has all rounds."""


def summary_page(run: Run, plan: Plan, context: RoundContext) -> str:
    """A function of plan, history and front: a package's summary is made again and compared."""
    return (
        "\n".join(
            [*_searched(run, plan, context), *_found(plan, context), *_rounds(context), *_again(run, plan)]
        )
        + "\n"
    )


def _searched(run: Run, plan: Plan, context: RoundContext) -> Iterator[str]:
    spec, history = context.env.spec, context.history
    yield f"# Run {run.run_id}: predecoders for {one_line(spec.name, 80)}\n"
    yield "## What was searched\n"
    yield (
        f"- Code `{one_line(spec.code.source, 200)}`, noise {spec.noise.type}, p = {', '.join(f'{p:g}' for p in spec.noise.p)}; "
        f"headline figures at p = {context.env.reference_p:g}."
    )
    yield f"- A predecoder stands before the plain {spec.classical_backend} backend, whose LER it should lower."
    who = "a chat" if plan.proposer == CHAT else one_line(plan.proposer, 40)
    yield f"- {len(history)} of {plan.rounds} rounds are done, proposed by {who}, with profile {plan.profile}."
    if plan.is_smoke:
        yield "- This is a smoke run: nothing is verified."
    else:
        shots = plan.shots_verify(spec.eval_protocol)
        yield f"- Rounds that gain on validation shots are verified on at least {shots} fresh shots per p."
    paid = [row["cost_usd"] for row in history if row.get("cost_usd") is not None]
    cost = f", and ${sum(paid):.2f} for language models" if paid else ""
    yield f"- The rounds took {sum(map(seconds_of, history)) / 60:.0f} minutes{cost}.\n"


def _found(plan: Plan, context: RoundContext) -> Iterator[str]:
    yield "## What was found\n"
    by_round = {row.get("round"): row for row in context.history}
    front = sorted(context.pareto, key=lambda member: -(member.get("delta_vs_baseline_holdout") or 0.0))
    if front:
        yield _headline(front[0], by_round.get(front[0].get("round"), {}))
    elif plan.is_smoke:
        yield "See candidate_pareto.json: what validation measured."
    else:
        yield "No round is verified yet."
        gains = [row for row in context.history if row["status"] == "ok" and (row.get("delta_ler") or 0) > 0]
        if gains:
            best = max(gains, key=lambda row: row["delta_ler"])
            yield f"Round {best.get('round')} gained most on validation shots, which selected it: {gain(best)}."
    outcomes = Counter(str(row.get("verdict") or row["status"]) for row in context.history)
    yield (
        "\nOutcomes: " + (", ".join(f"{n} {name}" for name, n in outcomes.most_common()) or "none yet") + "."
    )
    if front:
        yield "\nThe verified front, largest gain first:\n"
        yield from map(_member, front[:_MOST])
        if len(front) > _MOST:
            yield f"- and {len(front) - _MOST} more: pareto.json"
    yield ""


def _headline(member: Mapping[str, Any], row: Row) -> str:
    """In a sentence. Figures are of the shots that selected nothing, where there are any."""
    verified = row.get("verification") or {}
    ratio, plain, ler = (verified.get(name) for name in ("ratio", "ler_baseline", "ler_holdout"))
    gained = f"lowers the LER by {member.get('delta_vs_baseline_holdout') or 0.0:.3g}"
    if ratio and plain and ler:
        gained = f"fails {ratio:.3f} times less often than {one_line(str(verified.get('baseline')), 40)}: LER {plain:.4g} -> {ler:.4g}"
    low, high = member.get("delta_ci") or (None, None)
    interval = "" if low is None or high is None else f" (difference {low:.3g} .. {high:.3g})"
    shots = f" on {verified['shots']} fresh shots" if verified.get("shots") else ""
    text = f"**Round {member.get('round')} {gained}{shots}{interval}.**"
    strongest, against = verified.get("strongest_baseline"), verified.get("delta_vs_strongest_ci")
    if strongest and against and None not in against:
        beats = "beats" if against[0] > 0 else "loses to" if against[1] < 0 else "cannot be told from"
        text += f" It {beats} {one_line(str(strongest), 40)}, the strongest classical decoder on these shots."
    return text


def _member(member: Mapping[str, Any]) -> str:
    low, high = member.get("delta_ci") or (float("nan"), float("nan"))
    return (
        f"- {short_name(str(member.get('branch')))}: gain in LER {member.get('delta_vs_baseline_holdout') or 0.0:.3g} "
        f"({low:.3g} .. {high:.3g}), {member.get('flops_per_syndrome')} FLOPs, {member.get('n_params')} parameters"
    )


def _rounds(context: RoundContext) -> Iterator[str]:
    yield "## Rounds\n"
    shown = context.history[-_MOST:]
    if len(shown) < len(context.history):
        yield f"The last {len(shown)} of {len(context.history)}.\n"
    for row in shown:
        outcome = str(row.get("verdict") or row["status"])
        reason = one_line(str(row.get("status_reason") or ""), 120) if row["status"] != "ok" else gain(row)
        idea = one_line(str(row.get("hypothesis") or ""), 120)
        yield f"- Round {row.get('round')}: {idea} - {outcome}{f', {reason}' if reason else ''}"
    yield "" if shown else "None yet.\n"


def _again(run: Run, plan: Plan) -> Iterator[str]:
    run_id, env = run.run_id, shlex.quote(Path(run.info.env).name)
    lines = [] if plan.is_smoke else [(f"pareto {run_id} --plot front.png", "the front as a picture")]
    lines += [
        (f"review {run_id}", "what was tried, repeated and spent"),
        (f"replay {run_id}/round_1", "train a round again from its commit, and compare"),
        (f"package-run {run_id}", "all of it in one archive, for verify-package anywhere"),
    ]
    if plan.proposer != CHAT:
        lines.append((f"run {env} --resume {run_id} --rounds {2 * plan.rounds}", "more rounds"))
    yield "## How to go on\n"
    yield "In the folder that holds `runs/`:\n"
    yield from _commands(lines)
    if plan.proposer != CHAT:
        how = "--no-llm" if plan.is_smoke else f"--proposer {shlex.quote(plan.proposer)}"
        again = f"run {env} --run-id {run_id} --rounds {plan.rounds} --profile {plan.profile} {how} --own-repository"
        yield "\nThe same run again, in another folder: all seeds of proposals and trainings follow from its id.\n"
        yield from _commands([(again, "")])


def _commands(lines: list[tuple[str, str]]) -> Iterator[str]:
    widest = max(len(command) for command, _ in lines)
    yield "```"
    for command, about in lines:
        yield f"autoqec {command:<{widest}}  # {about}" if about else f"autoqec {command}"
    yield "```"
