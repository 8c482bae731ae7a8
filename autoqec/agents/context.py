"""What each role is told in a round: built anew every time from what the run folder says.

A context is a task in this program's words, data in fences, and excerpts of what is known. It is at most `LIMIT` tokens
(characters over four); every part has its own limit, and knowledge takes what the others leave.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autoqec.agents import fences
from autoqec.agents.graph_text import gain, graph_lines
from autoqec.agents.knowledge import excerpts
from autoqec.agents.prompts import Role
from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.envs.schema import EnvSpec
from autoqec.search.analyst import Analysis
from autoqec.search.distance import config_of
from autoqec.search.earlier_rounds import examples
from autoqec.search.proposal import BASELINE, RoundContext, Row, short_name
from autoqec.search.space import Space

LIMIT = 5_000
SUMMARY_LIMIT = 2_000
_ENVIRONMENT, _MACHINE, _GRAPH, _CONFIGS = 450, 450, 1_500, 800
_WORDS = 1_200
_PER_TOKEN = fences.CHARACTERS_PER_TOKEN

Data = Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    title: str
    text: str


def ideator_context(context: RoundContext, machine: Data) -> str:
    task = f"Round {context.round} of {context.rounds_planned}. Propose the next experiment."
    names = [short_name(branch.name) for branch in context.branches if branch.name != BASELINE]
    can_fork = ", ".join([BASELINE, *names[-40:]])
    parts = [
        Part("Task", task),
        _environment(context),
        _machine(machine),
        Part(
            "Fork graph",
            "Round <- parents | verdict or status | gain | cost | hypothesis. You can fork from the names below it.\n"
            + _data("fork graph", "\n".join(graph_lines(context, limit=_GRAPH)) or "no rounds yet", _GRAPH)
            + "\n"
            + _data("branches", can_fork, 300),
        ),
        _best_configs(context),
    ]
    if context.in_flight:
        parts.append(_in_flight(context))
    return _assemble("ideator", context.env.spec, parts)


def coder_context(
    context: RoundContext, machine: Data, *, idea: Data, parent: Data, in_worktree: bool
) -> str:
    """idea: the Ideator's response. parent: the config that the round starts from."""
    task = f"Round {context.round}. Turn the hypothesis into one DSL config."
    if in_worktree:
        task += (
            " You are in the round's worktree: you may edit files under autoqec/decoders/modules/ and nothing else;"
            " `dsl_config` is written by the loop."
        )
    errors = [
        row for row in context.history if row.get("status") == "compile_error" and row.get("status_reason")
    ]
    parts = [
        Part("Task", task),
        Part("Hypothesis", _data("the Ideator's proposal", _json(idea), 700)),
        Part("Config of the parent", _data("config", _json(compact(parent)), 900)),
        _environment(context),
        _machine(machine),
        _best_configs(context),
    ]
    if errors:
        lines = [
            f"round {row.get('round')}: {fences.one_line(str(row['status_reason']), 300)}"
            for row in errors[-4:]
        ]
        parts.append(Part("Earlier configs that did not compile", _data("errors", "\n".join(lines), 350)))
    return _assemble("coder", context.env.spec, parts)


def analyst_context(
    context: RoundContext,
    *,
    row: Row,
    rule: Analysis,
    train_log: Path | None = None,
    output: Path | None = None,
) -> str:
    """row: what the round measured. rule: the deterministic analysis.

    Of the training log only numbers get through. output: what the round printed, shown for a round that failed.
    """
    verdict = {name: value for name, value in asdict(rule).items() if name != "corrections"}
    parts = [
        Part(
            "Task",
            f"Say in one line what round {row.get('round')} found. The figures below are all there are.",
        ),
        Part("Hypothesis", _data("hypothesis", str(row.get("hypothesis") or ""), 300)),
        Part("Measured", _data("metrics", _json(_metrics(row)), 1_100)),
        Part("Verdict of the rule", _data("verdict", _json(verdict), 250)),
        Part("Training", _data("loss by step", loss_curve(train_log), 250)),
        _environment(context),
        Part(
            "Rounds so far",
            _data("fork graph", "\n".join(graph_lines(context, limit=700)) or "no rounds yet", 700),
        ),
    ]
    if output is not None and row.get("status") != "ok":
        parts.append(Part("Output of the round", _data("end of the output", _tail(output), 400)))
    return _assemble("analyst", context.env.spec, parts)


def orchestrator_summary(context: RoundContext, *, money: Data | None = None) -> str:
    """Where the run stands, in less than `SUMMARY_LIMIT` tokens: for whoever drives the loop and has no memory."""
    counts: dict[str, int] = {}
    for row in context.history:
        outcome = str(row.get("verdict") or row.get("status"))
        counts[outcome] = counts.get(outcome, 0) + 1
    front = sorted(context.pareto, key=lambda member: -(member.get("delta_vs_baseline_holdout") or 0.0))
    members = [
        f"{short_name(str(member.get('branch')))}: delta {member.get('delta_vs_baseline_holdout') or 0.0:+.2g}, "
        f"{member.get('flops_per_syndrome')} FLOPs, {member.get('n_params')} parameters"
        for member in front[:10]
    ]
    facts = {"round": context.round, "rounds_planned": context.rounds_planned, "outcomes": counts}
    facts |= {"front_size": len(front), "seconds_left": context.budget_left_s, "money": money}
    return "\n\n".join(
        [
            "# Run",
            _data("run", _json({"environment": context.env.name, **facts}), 300),
            "# Verified front, best first",
            _data("front", "\n".join(members) or "empty", 450),
            "# Rounds",
            _data("fork graph", "\n".join(graph_lines(context, limit=950)) or "no rounds yet", 950),
        ]
    )


def compact(config: Data) -> dict[str, Any]:
    """A config without the options that are at their defaults."""
    dsl = PredecoderDSL.model_validate(dict(config))
    return dsl.model_dump(mode="json", exclude_defaults=True)


def loss_curve(path: Path | None) -> str:
    """At most twelve points of `<step>\\t<loss>` lines, and the minimum loss. Lines that are not two numbers are counted only."""
    points, other = [], 0
    for line in _lines(path):
        try:
            step, loss = (float(cell) for cell in line.split("\t"))
        except ValueError:
            other += 1
            continue
        points.append((step, loss))
    if not points:
        return f"no points; {other} lines are not numbers" if other else "no training"
    last = len(points) - 1
    shown = sorted({last * step // 11 for step in range(12)})
    text = " ".join(f"{points[i][0]:g}:{points[i][1]:.5g}" for i in shown)
    minimum = min((loss for _, loss in points if math.isfinite(loss)), default=math.nan)
    return f"{text}; minimum {minimum:.5g}; {len(points)} points" + (
        f"; {other} lines are not numbers" if other else ""
    )


def _assemble(role: Role, spec: EnvSpec, parts: Sequence[Part]) -> str:
    text = "\n\n".join(f"# {part.title}\n{part.text}" for part in parts)
    heading = "\n\n# What is known\n"
    room = LIMIT - fences.tokens(text + heading)
    known = excerpts(role, spec, limit=room) if room > 0 else ""
    return text + (heading + known if known else "")


def _environment(context: RoundContext) -> Part:
    spec = context.env.spec
    facts: dict[str, Any] = {
        **context.env.summary(),
        "code": f"{spec.code.type} {spec.code.source}",
        "noise": spec.noise.model_dump(mode="json", exclude_defaults=True, exclude={"seed_policy"}),
        "baseline_decoders": spec.baseline_decoders,
        "configs_over_budget": "refused" if context.refuse_over_budget else "run, and are marked",
    }
    measured = next((row for row in reversed(context.history) if row.get("ler_plain_classical")), None)
    if measured is not None:
        facts["plain_backend_ler"] = measured["ler_plain_classical"]
        facts["baselines"] = [
            {key: row.get(key) for key in ("name", "ler", "ratio") if row.get(key) is not None}
            for row in measured.get("baselines") or []
        ]
    return Part("Environment", _data("environment", _json(facts), _ENVIRONMENT))


def _machine(machine: Data) -> Part:
    return Part("Machine, timings and budget", _data("machine state", _json(machine), _MACHINE))


def _in_flight(context: RoundContext) -> Part:
    lines = [
        f"round {row['round']}: {fences.one_line(str(row['hypothesis']), 200)}"
        + (f" | {_json(compact(row['dsl_config']))}" if config_of(row) is not None else "")
        for row in context.in_flight
    ]
    told = "These train now and have no result yet. Propose something else; they cannot be forked from.\n"
    return Part("Rounds in flight", told + _data("rounds in flight", "\n".join(lines), _CONFIGS))


def _best_configs(context: RoundContext) -> Part:
    """Of the verified front, else of the rounds with the best gain; before there are any, shipped ones that work."""
    front = {member.get("commit_sha") for member in context.pareto}
    measured = [
        row for row in context.history if row.get("delta_ler") is not None and config_of(row) is not None
    ]
    verified = [row for row in measured if row.get("commit_sha") in front]
    best = sorted(verified or measured, key=lambda row: -row["delta_ler"])[:3]
    title = "Best configs, verified" if verified else "Best configs, not verified"
    if not best:
        shipped = [
            f"{name}: {_json(compact(canonical_dict(dsl)))}" for name, dsl in examples(Space(context.env))[:4]
        ]
        return Part("Configs to start from", "No round has a result yet. These work:\n" + "\n".join(shipped))
    each = _CONFIGS // len(best)
    blocks = [
        _data(
            f"config of round {int(row.get('round') or 0)}",
            f"{gain(row)}{_checkpoint(row)}\n{_json(compact(row['dsl_config']))}",
            each,
        )
        for row in best
    ]
    return Part(title, "\n".join(blocks))


def _checkpoint(row: Row) -> str:
    """By what `training.init_from` names it."""
    return f", checkpoint {row['checkpoint_sha256']}" if row.get("checkpoint_sha256") else ""


def _metrics(row: Row) -> dict[str, Any]:
    kept = (
        "status", "status_reason", "reference_p", "ler_plain_classical", "ler_predecoder", "delta_ler", "delta_ler_ci_low",
        "delta_ler_ci_high", "delta_vs_parent", "parent_ler", "flops_per_syndrome", "n_params", "over_budget",
        "train_wallclock_s", "eval_wallclock_s", "train_loss_initial", "train_loss_final", "train_loss_mean_last_epoch",
        "train_batches_total", "training_profile", "training_note", "per_p", "baselines", "init_from",
    )  # fmt: skip
    return {name: row[name] for name in kept if row.get(name) is not None}


def _data(of: str, text: str, limit: int) -> str:
    """A fence of at most `limit` tokens, its two tags not counted."""
    return fences.fence(of, text, limit=limit * _PER_TOKEN)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _tail(path: Path) -> str:
    return "\n".join(_lines(path)[-40:])[-_WORDS:]
