"""The loop in single steps, JSON in and out: for a chat whose own subagents speak for the roles.

A step that was taken answers as it did then; a round that is over answers with its row. What a step means is decided by
`Experiment`; here it is only put into JSON.
"""

from __future__ import annotations

import shlex
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from autoqec.agents.answers import wire_schema
from autoqec.agents.context import analyst_context, ideator_context, orchestrator_summary
from autoqec.agents.llm_proposer import coded, coder_message, proposed
from autoqec.agents.machine_state import machine_state
from autoqec.agents.prompts import Role, role_prompt
from autoqec.agents.roles import RESPONSES
from autoqec.agents.schemas import AnalystResponse, CoderResponse, IdeatorResponse
from autoqec.agents.words_check import check_words
from autoqec.errors import InputError
from autoqec.layout import ExperimentDir
from autoqec.runner.schema import Failure
from autoqec.runs.experiment import Experiment
from autoqec.runs.plan import CHAT
from autoqec.runs.research_run import Progress, ResearchRun
from autoqec.sandbox.installed import installed_root, python_path
from autoqec.search.analyst import analyse
from autoqec.search.checks import ConfigCheck

Json = dict[str, Any]


def begin(research: ResearchRun) -> Json:
    report = research.bring_in_order()
    run, plan = research.run, research.plan
    return {
        "run_id": run.run_id,
        "run_dir": str(run.files.path),
        "env": run.info.env,
        "profile": plan.profile,
        "rounds_planned": plan.rounds,
        "rounds_done": research.now.rounds_done(),
        "in_flight": [_where(experiment) for experiment in Experiment.in_flight(run)],
        "reconciled": [list(action) for action in report.actions],
        "summary": _summary(research),
    }


def _summary(research: ResearchRun) -> str:
    """Where the run stands, for a chat without memory: what others wrote is fenced."""
    now = research.now.context()
    paid = [row["cost_usd"] for row in now.history if row.get("cost_usd") is not None]
    return orchestrator_summary(now, money={"spent_usd": round(sum(paid), 6)} if paid else None)


def context(research: ResearchRun, role: Role, number: int | None) -> Json:
    """What a subagent is told. number: the round in flight, for the Coder and the Analyst.

    attempt: of the Ideator's round, to be given to `propose`: the same until that round has started.
    """
    message = {"ideator": _for_ideator, "coder": _for_coder, "analyst": _for_analyst}[role](research, number)
    told = {
        "role": role,
        "round": number,
        "instructions": role_prompt(role).text,
        "message": message,
        "schema": wire_schema(RESPONSES[role]),
    }
    return told | {"attempt": _next_attempt(research)} if role == "ideator" else told


def propose(research: ResearchRun, reply: IdeatorResponse, attempt: str | None) -> Json:
    run, plan = research.run, research.plan
    if plan.proposer != CHAT:
        raise InputError(
            f"{plan.proposer} proposes the rounds of this run",
            where=str(run.files.path),
            hint=f"resume it with autoqec run {run.info.env} --resume {run.run_id}",
        )
    if attempt is not None and (row := run.history.of_attempt(attempt)) is not None:
        return _over(research, row)
    for experiment in Experiment.in_flight(run):
        if experiment.journal.round_attempt_id == attempt:
            experiment.prepare()
            return _where(experiment)
    if (full := research.room()) is not None:
        raise InputError(full.reason, where="propose", hint=full.hint)
    proposal = proposed(reply, research.now.context(), origin={"proposer": CHAT}, attempt=attempt)
    return _where(research.propose(proposal))


def code(research: ResearchRun, number: int, reply: CoderResponse | None) -> Json:
    """reply: None for a pure compose round, which is the merge itself."""
    if (row := research.run.history.of_round(number)) is not None:
        return _over(research, row)
    experiment = Experiment.numbered(research.run, number)
    proposal, now = experiment.proposal, research.now.context(number)
    if (reply is None) != (proposal.compose_mode == "pure"):
        what, hint = (
            ("only a pure compose round needs no Coder", "give the answer")
            if reply is None
            else ("a pure compose round is the merge itself", "leave the answer out")
        )
        raise InputError(what, where="--in", hint=hint)
    if reply is not None and experiment.needs_code:
        ConfigCheck(now, sends_back=False)(reply.dsl_config, reply.tier)
        proposal = coded(proposal, reply)
    status, reason = experiment.code(proposal, now, is_final=False)
    answer = {"round": number, "status": status, "reason": reason}
    if status == "committed":
        command = research.subprocess_runner().command(experiment.hand_out())
        worktree = shlex.quote(str(experiment.worktree.path))
        path = "".join(
            f"{name}={shlex.quote(value)} " for name, value in python_path(installed_root()).items()
        )
        record = ExperimentDir(experiment.worktree.path).record(research.run.run_id, number)
        answer |= {
            "commit_sha": experiment.journal.commit_sha,
            "config": str(record.config),
            "round_dir": str(experiment.files.path),
            "command": f"cd {worktree} && {path}{shlex.join(command)}",
        }
    return answer


def train(research: ResearchRun, number: int) -> Json:
    """Takes what a runner left, or trains."""
    if (row := research.run.history.of_round(number)) is None:
        experiment = Experiment.numbered(research.run, number)
        if experiment.needs_code:
            raise InputError(
                f"round {number} has no config yet", where="run", hint="take the step `code` first"
            )
        experiment.train(research.runner())
        row = experiment.row
    kept = (
        "round", "status", "status_reason", "branch", "commit_sha", "reference_p", "ler_plain_classical", "ler_predecoder",
        "delta_ler", "delta_ler_ci_low", "delta_ler_ci_high", "flops_per_syndrome", "n_params", "train_wallclock_s",
    )  # fmt: skip
    return {name: row.get(name) for name in kept}


def analysed(research: ResearchRun, number: int, reply: AnalystResponse | None) -> Json:
    """reply: the Analyst's words; figures and verdict that the metrics do not support are corrected."""
    if (row := research.run.history.of_round(number)) is not None:
        return {"round": number, **(row.get("analysis") or {})}
    experiment = Experiment.numbered(research.run, number)
    if reply is None:
        return {"round": number, **experiment.analyse()}
    front = research.now.context(number).pareto
    words = experiment.analyse(lambda row: check_words(reply, row, front, row.get("dsl_config")))
    return {"round": number, **words}


def verified(research: ResearchRun, number: int, progress: Progress | None = None) -> Json:
    if (row := research.run.history.of_round(number)) is not None:
        return {"round": number, "verdict": row["verdict"], "verification": row.get("verification")}
    experiment = Experiment.numbered(research.run, number)
    report = experiment.verify(research.verifier(progress))
    if report is None:
        error = experiment.journal.details.get("verify_error")
        return {"round": number, "verdict": None, "skipped": error or "the round is not a candidate"}
    return {
        "round": number,
        "verdict": report.verdict,
        "ler_baseline_holdout": report.headline.ler_baseline,
        "ler_holdout": report.headline.ler_candidate,
        "delta_vs_baseline_holdout": report.headline.delta,
        "notes": report.notes,
        "report": str(experiment.files.report),
    }


def abandon(research: ResearchRun, number: int, reason: str) -> Json:
    """Ends a round that will get no config: its row says why."""
    if (row := research.run.history.of_round(number)) is None:
        experiment = Experiment.numbered(research.run, number)
        if experiment.journal.commit_sha is not None:
            raise InputError(
                f"round {number} is committed", where="abandon", hint="take the step `run`, then `record`"
            )
        experiment.fail(Failure("given_up", f"given up: {reason}"))
        row = research.record(experiment)
    return _over(research, row)


def record(research: ResearchRun, number: int) -> Json:
    """A round that was recorded and not closed is closed."""
    is_flying = any(experiment.name.round == number for experiment in Experiment.in_flight(research.run))
    row = None if is_flying else research.run.history.of_round(number)
    return research.record(Experiment.numbered(research.run, number)) if row is None else row


def end(research: ResearchRun) -> Json:
    found = research.results()
    folder = found["run_dir"]
    return found | {
        "in_flight": [_where(experiment) for experiment in Experiment.in_flight(research.run)],
        "next": [f"autoqec pareto {folder}", f"autoqec review {folder}", f"autoqec package-run {folder}"],
    }


def _next_attempt(research: ResearchRun) -> str:
    run = research.run
    return str(uuid5(NAMESPACE_OID, f"{run.info.created_at} {run.run_id} {run.next_round()}"))


def _where(experiment: Experiment) -> Json:
    row = experiment.journal.row or {}
    return {
        "round": experiment.name.round,
        "round_attempt_id": experiment.journal.round_attempt_id,
        "status": row.get("status") if experiment.is_over else experiment.stage,
        "reason": row.get("status_reason"),
        "compose_mode": experiment.journal.proposal.compose_mode,
        "branch": None if experiment.is_over else experiment.name.branch,
        "worktree": None if experiment.is_over else str(experiment.worktree.path),
        "round_dir": str(experiment.files.path),
    }


def _over(research: ResearchRun, row: Json) -> Json:
    return {
        "round": row["round"],
        "round_attempt_id": row["round_attempt_id"],
        "status": row["status"],
        "reason": row["status_reason"],
        "branch": row["branch"],
        "commit_sha": row["commit_sha"],
        "round_dir": None if row["round"] is None else str(research.run.files.round(row["round"]).path),
    }


def _machine(research: ResearchRun) -> Json:
    left = research.plan.rounds - research.now.rounds_done()
    now = research.now.context()
    return machine_state(
        now.history,
        run=research.run.files,
        rounds_left=left,
        seconds_left=now.budget_left_s,
        checked_out=now.checked_out,
    )


def _for_ideator(research: ResearchRun, number: int | None) -> str:
    return ideator_context(research.now.context(number), _machine(research))


def _for_coder(research: ResearchRun, number: int | None) -> str:
    experiment = Experiment.numbered(research.run, _given(number, "coder"))
    now = research.now.context(experiment.name.round)
    return coder_message(experiment.proposal, now, _machine(research), in_worktree=True)


def _for_analyst(research: ResearchRun, number: int | None) -> str:
    experiment = Experiment.numbered(research.run, _given(number, "analyst"))
    now, row, files = research.now.context(experiment.name.round), experiment.result, experiment.files
    rule = analyse(row, now.pareto)
    return analyst_context(now, row=row, rule=rule, train_log=files.train_log, output=files.output)


def _given(number: int | None, role: str) -> int:
    if number is None:
        raise InputError(f"the {role} is told about a round", where="--round", hint="give its number")
    return number
