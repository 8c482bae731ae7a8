"""The round took longer than it may: killed at its wall-clock limit, or cut off by the profile's time for training."""

from __future__ import annotations

import re

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Evidence, Finding, Patch
from autoqec.runner.profiles import PROFILES

_KILLED = re.compile(r"wall-clock limit of ([\d.e+]+) s|processes ran past ([\d.e+]+) s")
_CUT_OFF = re.compile(r"time budget of ([\d.e+]+) s used up after (\d+) steps")
_MARGIN = 0.7


def find(case: RoundCase) -> Finding | None:
    killed = case.status == "killed_by_safety" and _KILLED.search(case.reason)
    note = (case.metrics.training_note or "") if case.metrics is not None else ""
    cut_off = case.status == "ok" and not case.gains and _CUT_OFF.search(note)
    if not killed and not cut_off:
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
        what = "training was cut off by the profile's time budget before its schedule ended, and nothing was gained"
        advice = "fewer epochs that the schedule can finish, or a cheaper model"
    return Finding(
        "high" if killed else "medium", what, tuple(evidence), advice, _shorter(case, done, planned)
    )


def _planned_steps(case: RoundCase) -> int | None:
    env, dsl, profile = case.around.env, case.dsl, _profile(case)
    if env is None or dsl is None or profile not in PROFILES:
        return None
    per_epoch = max(1, PROFILES[profile].train_shots(env.spec.eval_protocol) // dsl.training.batch_size)
    return per_epoch * dsl.training.epochs


def _profile(case: RoundCase) -> str:
    """A killed round's metrics do not say it; its manifest does."""
    said = case.figures.get("training_profile") or (case.manifest or {}).get("training_profile")
    return str(said or case.value("training.profile"))


def _shorter(case: RoundCase, done: int, planned: int | None) -> Patch | None:
    epochs = case.value("training.epochs")
    if not isinstance(epochs, int):
        return None
    if epochs > 1 and not (planned is not None and done >= planned):
        share = _MARGIN * done / planned if planned and done else 0.5
        return case.suggest(training__epochs=min(epochs - 1, max(1, int(epochs * share))))
    return case.cheaper()
