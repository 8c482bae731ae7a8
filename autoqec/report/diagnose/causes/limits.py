"""Causes outside the model: too little memory, too little time, or a process that was ended."""

from __future__ import annotations

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Evidence, Finding, Patch
from autoqec.report.reading import real
from autoqec.runner.profiles import PROFILES

_MEMORY_MARGIN = 0.8
_TIME_MARGIN = 0.7


def find_killed_process(case: RoundCase) -> Finding | None:
    """The round's process left no result: interrupted, killed by a signal, or gone with its machine."""
    if case.running:
        return None
    resumable = case.files.training_state.exists()
    advice = "run the same round again: " + (
        "training resumes from training_state.pt" if resumable else "it starts over"
    )
    if case.in_flight:
        advice = "resume the run, or run autoqec reconcile: it finishes or clears what is in flight"
    if case.kind in ("interrupted", "killed"):
        return Finding(
            "high",
            "the round's process was ended from outside",
            tuple(case.metric("status", "status_reason")),
            advice,
        )
    if (case.metrics is not None and not case.is_torn) or not case.files.path.is_dir():
        return None
    idle = case.idle_s()
    evidence = [Evidence("metrics.json", "torn" if case.is_torn else "missing")]
    if case.curve.steps:
        line = len(case.curve.steps) + len(case.curve.broken)
        evidence.append(Evidence(f"train.log:{line}", f"step {case.curve.steps[-1]} is the last"))
    if case.output:
        evidence.append(Evidence("runner.log", f"{len(case.output)} lines"))
    if resumable:
        evidence.append(Evidence("training_state.pt", f"{case.files.training_state.stat().st_size} bytes"))
    if idle is not None:
        evidence.append(Evidence("last write of the round", f"{idle:.0f} s ago"))
    return Finding(
        "high" if case.in_flight or case.is_torn else "medium",
        "the round has no result, and no process of its run is at work on it",
        tuple(evidence),
        advice,
    )


def find_out_of_memory(case: RoundCase) -> Finding | None:
    """A training batch does not fit into memory, by estimate or in fact."""
    if case.kind not in ("memory_estimate", "out_of_memory"):
        return None
    evidence = [*case.metric("status", "status_reason"), case.option("training.batch_size")]
    share = 0.25
    needed, limit = (real(case.facts.get(name)) for name in ("needed_gb", "limit_gb"))
    if needed is not None and limit is not None:
        evidence += [Evidence("estimated need in GB", needed), Evidence("limit in GB", limit)]
        share = _MEMORY_MARGIN * limit / needed if limit and needed else share
    is_certain = case.kind == "memory_estimate" or case.facts.get("certain") is True
    return Finding(
        "high" if is_certain else "medium",
        "a training batch needs more memory than there is",
        tuple(evidence),
        "lower training.batch_size; if a batch of one does not fit, make the model smaller",
        _smaller(case, share),
    )


def find_timeout(case: RoundCase) -> Finding | None:
    """The round took longer than it may: killed at its wall-clock limit, or stopped at the profile's time for training."""
    killed = case.kind == "wall_clock"
    stopped = case.status == "ok" and not case.gains and case.figures.get("training_stopped") == "time_budget"
    if not killed and not stopped:
        return None
    done, planned = case.curve.steps[-1] if case.curve.steps else 0, _planned_steps(case)
    evidence = [*case.metric("status", "status_reason" if killed else "training_note", "train_wallclock_s")]
    at = f"train.log:{len(case.curve.steps)}" if done else "train.log"
    evidence.append(Evidence(at, f"{done} steps done"))
    if planned is not None:
        evidence.append(
            Evidence("steps planned, from epochs, batch_size and the environment's shots", planned)
        )
    evidence += [case.option(name) for name in ("training.epochs", "training.batch_size")]
    if killed:
        what = "the round was killed at its wall-clock limit"
        advice = "fewer epochs or a cheaper model; give more time with --wall-clock only if nearly all planned steps were done"
    else:
        what = "training was stopped at the profile's time budget before its schedule ended, and nothing was gained"
        advice = "fewer epochs that the schedule can finish, or a cheaper model"
    return Finding(
        "high" if killed else "medium", what, tuple(evidence), advice, _shorter(case, done, planned)
    )


def _smaller(case: RoundCase, share: float) -> Patch | None:
    """The largest power of two that is at most `share` of the batch."""
    size = case.value("training.batch_size")
    if not isinstance(size, int):
        return None
    target = int(size * share)
    if target < 1:
        return case.cheaper()
    return case.suggest(training__batch_size=1 << (target.bit_length() - 1))


def _planned_steps(case: RoundCase) -> int | None:
    """A killed round's metrics do not have them."""
    if (recorded := case.figures.get("training_steps_planned")) is not None:
        return int(recorded)
    env, dsl, profile = case.around.env, case.dsl, _profile(case)
    if env is None or dsl is None or profile not in PROFILES:
        return None
    per_epoch = max(1, PROFILES[profile].train_shots(env.spec.eval_protocol) // dsl.training.batch_size)
    return per_epoch * dsl.training.epochs


def _profile(case: RoundCase) -> str:
    """A killed round's metrics do not have it; its manifest does."""
    recorded = case.figures.get("training_profile") or (case.manifest or {}).get("training_profile")
    return str(recorded or case.value("training.profile"))


def _shorter(case: RoundCase, done: int, planned: int | None) -> Patch | None:
    epochs = case.value("training.epochs")
    if not isinstance(epochs, int):
        return None
    if epochs > 1 and not (planned is not None and done >= planned):
        share = _TIME_MARGIN * done / planned if planned and done else 0.5
        return case.suggest(training__epochs=min(epochs - 1, max(1, int(epochs * share))))
    return case.cheaper()
