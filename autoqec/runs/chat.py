"""The loop in single steps, JSON in and out: for a chat whose own subagents speak for the roles.

A step that was taken answers as it did then; a round that is over answers with its row.
"""

from __future__ import annotations

import shlex
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from autoqec.agents.answers import wire_schema
from autoqec.agents.context import analyst_context, coder_context, ideator_context
from autoqec.agents.machine_state import machine_state
from autoqec.agents.prompts import Role, role_prompt
from autoqec.agents.roles import RESPONSES
from autoqec.agents.schemas import AnalystResponse, CoderResponse, IdeatorResponse
from autoqec.agents.words_check import check_words
from autoqec.errors import InputError
from autoqec.layout import ExperimentDir
from autoqec.runs.experiment import RoundLifecycle
from autoqec.runs.loop import bring_in_order, results
from autoqec.runs.plan import CHAT
from autoqec.runs.research_run import Progress, Steps
from autoqec.search.analyst import analyse
from autoqec.search.checks import ConfigCheck, parent_config, resolve

Json = dict[str, Any]


def begin(steps: Steps) -> Json:
    report = bring_in_order(steps)
    return {
        "run_id": steps.run.run_id,
        "run_dir": str(steps.run.files.path),
        "env": steps.run.info.env,
        "profile": steps.plan.profile,
        "rounds_planned": steps.plan.rounds,
        "rounds_done": steps.now.rounds_done(),
        "in_flight": [_where(lifecycle) for lifecycle in RoundLifecycle.in_flight(steps.run)],
        "reconciled": [list(action) for action in report.actions],
        "summary": steps.run.files.summary.read_text(),
    }


def context(steps: Steps, role: Role, number: int | None) -> Json:
    """What a subagent is told. number: the round in flight, for the Coder and the Analyst.

    attempt: of the Ideator's round, to be given to `propose`: the same until that round is begun.
    """
    message = {"ideator": _for_ideator, "coder": _for_coder, "analyst": _for_analyst}[role](steps, number)
    told = {
        "role": role,
        "round": number,
        "instructions": role_prompt(role).text,
        "message": message,
        "schema": wire_schema(RESPONSES[role]),
    }
    return told | {"attempt": _next_attempt(steps)} if role == "ideator" else told


def propose(steps: Steps, said: IdeatorResponse, attempt: str | None) -> Json:
    if steps.plan.proposer != CHAT:
        raise InputError(
            f"{steps.plan.proposer} proposes the rounds of this run",
            where=str(steps.run.files.path),
            hint=f"go on with autoqec run {steps.run.info.env} --resume {steps.run.run_id}",
        )
    done = None if attempt is None else steps.run.history.of_attempt(attempt)
    if done is not None:
        return _over(steps, done)
    flying = [lifecycle.journal.round_attempt_id for lifecycle in RoundLifecycle.in_flight(steps.run)]
    if attempt not in flying:
        _check_budget(steps, len(flying))
    lifecycle = steps.propose(said, origin={"proposer": CHAT}, attempt=attempt)
    return _where(lifecycle)


def code(steps: Steps, number: int, said: CoderResponse | None) -> Json:
    """said: None for a pure compose round, which is the merge itself."""
    if (row := steps.recorded(number)) is not None:
        return _over(steps, row)
    lifecycle = steps.round(number)
    if said is None:
        if lifecycle.journal.compose_mode != "pure":
            raise InputError("only a pure compose round needs no Coder", where="--in", hint="give the answer")
        status, reason = steps.commit(lifecycle)
    else:
        if lifecycle.journal.compose_mode == "pure":
            raise InputError(
                "a pure compose round is the merge itself", where="--in", hint="leave the answer out"
            )
        if lifecycle.journal.commit_sha is None and not lifecycle.is_over:
            ConfigCheck(steps.now.context(number), sends_back=False)(said.dsl_config, said.tier)
        status, reason = steps.code(lifecycle, said, is_final=False)
    if status == "committed" and (refused := _out_of_scope(steps, lifecycle)) is not None:
        status, reason = "refused", refused
    answer = {"round": number, "status": status, "reason": reason}
    if status == "committed":
        if not lifecycle.journal.training:
            lifecycle.worktree.reset(lifecycle.name.branch)
        config = lifecycle.hand_out()
        worktree = shlex.quote(str(lifecycle.worktree.path))
        record = ExperimentDir(lifecycle.worktree.path).record(steps.run.run_id, number)
        answer |= {
            "commit_sha": lifecycle.journal.commit_sha,
            "config": str(record.config),
            "round_dir": str(lifecycle.files.path),
            "command": f"cd {worktree} && PYTHONPATH={worktree} {shlex.join(steps.runner().command(config))}",
        }
    return answer


def train(steps: Steps, number: int) -> Json:
    """Takes what a runner left, or trains."""
    if (row := steps.recorded(number)) is None:
        lifecycle = steps.round(number)
        if lifecycle.journal.commit_sha is None and not lifecycle.is_over:
            raise InputError(
                f"round {number} has no config yet", where="run", hint="take the step `code` first"
            )
        steps.train(lifecycle)
        row = steps.row_so_far(lifecycle)
    kept = (
        "round", "status", "status_reason", "branch", "commit_sha", "reference_p", "ler_plain_classical", "ler_predecoder",
        "delta_ler", "delta_ler_ci_low", "delta_ler_ci_high", "flops_per_syndrome", "n_params", "train_wallclock_s",
    )  # fmt: skip
    return {name: row.get(name) for name in kept}


def analysed(steps: Steps, number: int, said: AnalystResponse | None) -> Json:
    """said: the Analyst's words; figures and verdict that the metrics do not support are corrected."""
    if (row := steps.recorded(number)) is not None:
        return {"round": number, **(row.get("analysis") or {})}
    lifecycle = steps.round(number)
    checked = None
    if said is not None:
        row, now = steps.result(lifecycle), steps.now.context(number)
        checked = check_words(said, row, now.pareto, row.get("dsl_config"))
    return {"round": number, **steps.analyse(lifecycle, checked)}


def verified(steps: Steps, number: int, progress: Progress | None = None) -> Json:
    if (row := steps.recorded(number)) is not None:
        return {"round": number, "verdict": row["verdict"], "verification": row.get("verification")}
    lifecycle = steps.round(number)
    report = steps.verify(lifecycle, progress)
    if report is None:
        error = lifecycle.journal.details.get("verify_error")
        return {"round": number, "verdict": None, "skipped": error or "the round is no candidate"}
    return {
        "round": number,
        "verdict": report.verdict,
        "ler_baseline_holdout": report.ler_baseline_holdout,
        "ler_holdout": report.ler_holdout,
        "delta_vs_baseline_holdout": report.delta_vs_baseline_holdout,
        "notes": report.notes,
        "report": str(lifecycle.files.report),
    }


def abandon(steps: Steps, number: int, reason: str) -> Json:
    """Ends a round that will get no config: its row says why."""
    if (row := steps.recorded(number)) is None:
        lifecycle = steps.round(number)
        if lifecycle.journal.commit_sha is not None:
            raise InputError(
                f"round {number} is committed", where="abandon", hint="take the step `run`, then `record`"
            )
        lifecycle.abandon(f"given up: {reason}")
        row = steps.record(lifecycle)
    return _over(steps, row)


def record(steps: Steps, number: int) -> Json:
    is_flying = any(lifecycle.name.round == number for lifecycle in RoundLifecycle.in_flight(steps.run))
    row = None if is_flying else steps.recorded(number)
    return row if row is not None else steps.record(steps.round(number))


def end(steps: Steps) -> Json:
    found = results(steps)
    folder = found["run_dir"]
    return found | {
        "in_flight": [_where(lifecycle) for lifecycle in RoundLifecycle.in_flight(steps.run)],
        "next": [f"autoqec pareto {folder}", f"autoqec review {folder}", f"autoqec package-run {folder}"],
    }


def _next_attempt(steps: Steps) -> str:
    return str(
        uuid5(NAMESPACE_OID, f"{steps.run.info.created_at} {steps.run.run_id} {steps.run.next_round()}")
    )


def _check_budget(steps: Steps, in_flight: int) -> None:
    """Whether the plan has room for one more round."""
    left = steps.now.seconds_left()
    if steps.now.rounds_done() + in_flight >= steps.plan.rounds:
        said = f"all {steps.plan.rounds} rounds of the plan are done or in flight"
        hint = (
            "finish those in flight, end the run, or plan more: autoqec step begin --run RUN_DIR --rounds N"
        )
    elif left is not None and left <= 0:
        said = f"the budget of {steps.plan.budget_minutes:g} minutes is used up"
        hint = "end the run, or give it more: autoqec step begin --run RUN_DIR --budget-minutes M"
    else:
        return
    raise InputError(said, where="propose", hint=hint)


def _out_of_scope(steps: Steps, lifecycle: RoundLifecycle) -> str | None:
    """Why a committed round is not trained; its row says so then."""
    bad = lifecycle.out_of_scope()
    if bad:
        steps.train(lifecycle)  # which refuses it before any process starts
    return str((lifecycle.journal.row or {}).get("status_reason")) if bad else None


def _where(lifecycle: RoundLifecycle) -> Json:
    row = lifecycle.journal.row or {}
    return {
        "round": lifecycle.name.round,
        "round_attempt_id": lifecycle.journal.round_attempt_id,
        "status": row.get("status") if lifecycle.is_over else lifecycle.stage,
        "reason": row.get("status_reason"),
        "compose_mode": lifecycle.journal.compose_mode,
        "branch": None if lifecycle.is_over else lifecycle.name.branch,
        "worktree": None if lifecycle.is_over else str(lifecycle.worktree.path),
        "round_dir": str(lifecycle.files.path),
    }


def _over(steps: Steps, row: Json) -> Json:
    return {
        "round": row["round"],
        "round_attempt_id": row["round_attempt_id"],
        "status": row["status"],
        "reason": row["status_reason"],
        "branch": row["branch"],
        "commit_sha": row["commit_sha"],
        "round_dir": None if row["round"] is None else str(steps.run.files.round(row["round"]).path),
    }


def _machine(steps: Steps) -> Json:
    left = steps.plan.rounds - steps.now.rounds_done()
    now = steps.now.context()
    return machine_state(
        now.history,
        run=steps.run.files,
        rounds_left=left,
        seconds_left=now.budget_left_s,
        checked_out=now.checked_out,
    )


def _for_ideator(steps: Steps, number: int | None) -> str:
    return ideator_context(steps.now.context(number), _machine(steps))


def _for_coder(steps: Steps, number: int | None) -> str:
    lifecycle = steps.round(_given(number, "coder"))
    said = IdeatorResponse.model_validate(lifecycle.journal.details["idea"])
    now = steps.now.context(lifecycle.name.round)
    return coder_context(
        now,
        _machine(steps),
        idea=said.model_dump(mode="json", exclude_none=True),
        parent=parent_config(resolve(said.fork_from, now), now),
        in_worktree=True,
    )


def _for_analyst(steps: Steps, number: int | None) -> str:
    lifecycle = steps.round(_given(number, "analyst"))
    now, row = steps.now.context(lifecycle.name.round), steps.result(lifecycle)
    rule, files = analyse(row, now.pareto), lifecycle.files
    return analyst_context(now, row=row, rule=rule, train_log=files.train_log, output=files.output)


def _given(number: int | None, role: str) -> int:
    if number is None:
        raise InputError(f"the {role} is told about a round", where="--round", hint="give its number")
    return number
