"""The loss fell and the LER did not: what was trained is not what decoding needs."""

from __future__ import annotations

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.causes import degenerate_p
from autoqec.report.diagnose.finding import Finding, Patch
from autoqec.search.analyst import MOVED

WORTH = 0.1
"""Share of the plain decoder's failures: an interval that excludes even this gain settles the matter."""


def find(case: RoundCase) -> Finding | None:
    moved = case.curve.movement()
    figures = case.figures
    plain, high = figures.get("ler_plain_classical"), figures.get("delta_ler_ci_high")
    if case.status != "ok" or case.gains or plain is None or high is None:
        return None
    if moved is None or moved.share < MOVED or not moved.is_clear or not degenerate_p.is_measurable(case):
        return None
    settled = high < WORTH * plain
    return Finding(
        "high" if settled else "medium",
        "the loss moved but the LER did not",
        (
            *case.curve.evidence(moved),
            *case.metric(
                "ler_plain_classical", "ler_predecoder", "delta_ler", "delta_ler_ci_low", "delta_ler_ci_high"
            ),
            *case.metric("training_note"),
            case.option("training.loss"),
            case.option("output_mode"),
        ),
        _advice(case)
        + ("" if settled else "; the interval still allows a gain, so more validation shots may show one"),
        _suggestion(case),
    )


def _advice(case: RoundCase) -> str:
    if case.value("training.loss") != "backend_gap":
        return "train for the decoding outcome (loss: backend_gap), or change what the backend is given (output_mode)"
    return "start from a decoder that sees more: belief propagation in front (type: hybrid), or more of its iterations"


def _suggestion(case: RoundCase) -> Patch | None:
    if case.value("output_mode") == "hard_flip":
        return case.suggest(output_mode="soft_priors", **_without_confidence(case))
    env, problem = case.around.env, case.around.problem
    one = problem is None or env is None or env.spec.classical_backend == "osd" or problem.n_observables == 1
    if case.value("training.loss") != "backend_gap" and one:
        return case.suggest(training__loss="backend_gap")
    iterations = case.value("neural_bp.iterations")
    if isinstance(iterations, int):
        return case.suggest(neural_bp__iterations=2 * iterations)
    return case.suggest(type="hybrid", neural_bp={})


def _without_confidence(case: RoundCase) -> dict[str, object]:
    from autoqec.report.diagnose.patch import REMOVED

    return {"hard_flip": REMOVED} if (case.config or {}).get("hard_flip") is not None else {}
