"""Causes in the training, and in what its result is measured against."""

from __future__ import annotations

from typing import Any

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Change, Evidence, Finding, Patch
from autoqec.report.diagnose.loss_curve import SHORT
from autoqec.report.diagnose.patch import REMOVED
from autoqec.report.reading import Row, real
from autoqec.search.analyst import MOVED
from autoqec.stats.intervals import wilson
from autoqec.stats.power import detectable_effect
from autoqec.stats.sequential import MIN_BASELINE_FAILURES

_USUAL_RATE = 1e-3
_HIGHEST_RATE = 1e-2
_LOWEST_RATE = 1e-5
"""Below this no training of this length moves anything."""

SATURATED = 0.8
"""Of the LER of guessing."""

MINIMUM_EFFECT = 0.5
"""A comparison that can only show gains of more than half of the failures shows nothing."""

RESOLVED = 0.1
"""A curve on which a change of this share would not have been clear says little."""

WORTH = 0.1
"""Share of the plain decoder's failures: an interval that excludes even this gain settles the matter."""


def find_nan(case: RoundCase) -> Finding | None:
    """The loss was not finite: training was given up, or went on without those steps."""
    failed = case.kind == "nan_loss"
    hurt = case.status == "ok" and not case.gains and case.curve.skipped > 0
    if not failed and not hurt:
        return None
    rate = _rate(case)
    evidence = [*case.metric("status", "status_reason"), case.option("training.learning_rate")]
    if case.curve.steps:
        at = f"train.log:{len(case.curve.steps)}"
        evidence.append(
            Evidence(at, f"{len(case.curve.steps)} finite losses up to step {case.curve.steps[-1]}")
        )
    else:
        evidence.append(Evidence("train.log", "no finite loss at all"))
    return Finding(
        "high" if failed else "medium",
        "the loss was NaN or infinite",
        tuple(evidence),
        "lower training.learning_rate; if it stays so, add a normalization to the gnn, or look for a division or a logarithm in custom code",
        None if rate is None else _with_rate(case, min(rate / 10, _USUAL_RATE)),
    )


def find_diverged(case: RoundCase) -> Finding | None:
    """The loss grew: training moves away from where it started."""
    moved = case.curve.movement()
    if case.status != "ok" or case.gains or moved is None or moved.share > -MOVED or not moved.is_clear:
        return None
    rate = _rate(case)
    return Finding(
        "high",
        "the loss grew during training",
        (*case.curve.evidence(moved), case.option("training.learning_rate")),
        "lower training.learning_rate",
        None if rate is None else _with_rate(case, rate / 10),
    )


def find_dead_gradient(case: RoundCase) -> Finding | None:
    """The loss never moved: nothing was learned.

    A round that gains is only blamed if the curve is clear and no training state was better than the untrained one.
    """
    if case.status != "ok" or not case.figures.get("train_batches_total"):
        return None
    evidence = _stillness(case)
    if not evidence:
        return None
    rate, moved = _rate(case), case.curve.movement()
    is_tiny = rate is not None and rate < _LOWEST_RATE
    is_clear = moved is not None and moved.resolution <= RESOLVED and len(case.curve.losses) >= SHORT
    if case.gains and (case.figures.get("training_kept_step") != 0 or not (is_tiny or is_clear)):
        return None
    what = "the loss never moved"
    if case.gains:
        what += ": the gain is that of the untrained computation, and no training state was better"
    if is_tiny or is_clear:
        advice = (
            "a higher training.learning_rate, or a loss whose target the model can see; if custom code is in it, check that "
            "its parameters take part in what it returns"
        )
    else:
        advice = "more epochs: so few and noisy steps cannot show anything"
    return Finding(
        "high" if is_tiny or is_clear else "medium",
        what,
        (
            *evidence,
            *case.metric("training_note"),
            case.option("training.learning_rate"),
            case.option("training.loss"),
        ),
        advice,
        _livelier(case, rate) if is_tiny or is_clear else _longer(case),
    )


def find_loss_without_ler(case: RoundCase) -> Finding | None:
    """The loss fell and the LER did not: what was trained is not what decoding needs."""
    moved = case.curve.movement()
    figures = case.figures
    plain, high = figures.get("ler_plain_classical"), figures.get("delta_ler_ci_high")
    if case.status != "ok" or case.gains or plain is None or high is None:
        return None
    if moved is None or moved.share < MOVED or not moved.is_clear or find_degenerate_p(case) is not None:
        return None
    if case.value("training.loss") not in _OUTCOME:
        advice = "train for the decoding outcome (loss: backend_gap, or failures in front of OSD), or change what the backend is given (output_mode)"
    else:
        advice = "start from a decoder that sees more: belief propagation in front (type: hybrid), or more of its iterations"
    settled = high < WORTH * plain
    if not settled:
        advice += "; the interval still allows a gain, so more validation shots may show one"
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
        advice,
        _nearer_to_decoding(case),
    )


def find_degenerate_p(case: RoundCase) -> Finding | None:
    """At the reference p nothing can be measured: the plain decoder hardly ever fails, or is not better than guessing."""
    plain, shots = case.figures.get("ler_plain_classical"), case.shots()
    if case.status != "ok" or plain is None or not shots:
        return None
    if plain >= SATURATED * _guessing(case, plain):
        return _saturated(case, plain, shots)
    visible = _detectable(shots, plain)
    if visible is not None and (visible <= MINIMUM_EFFECT or case.gains):
        return None
    failures = round(plain * shots)
    low, high = wilson(failures, shots)
    needed = round(MIN_BASELINE_FAILURES / (plain or high))
    evidence = [*_headline(case, failures, shots), Evidence("95% interval of the plain LER", [low, high])]
    if visible is not None:
        evidence.append(
            Evidence("minimum share of failures removed that these shots can show", round(visible, 2))
        )
    return Finding(
        "high" if visible is None else "medium",
        "the plain decoder hardly fails at this p, so that no gain can be seen",
        tuple(evidence),
        f"take a higher p in the environment's sweep, or about {needed:.2g} validation shots "
        f"({MIN_BASELINE_FAILURES} failures) at this one; autoqec power counts them for a given gain",
        env_change=_better_p(case),
    )


def _rate(case: RoundCase) -> float | None:
    return real(case.value("training.learning_rate"))


def _with_rate(case: RoundCase, rate: float) -> Patch | None:
    return case.suggest(training__learning_rate=float(f"{rate:.3g}"))


def _stillness(case: RoundCase) -> tuple[Evidence, ...]:
    """That the loss stayed where it was; empty if it did not, or nobody knows."""
    moved = case.curve.movement()
    if moved is not None:
        is_still = not moved.is_clear or abs(moved.share) < MOVED
        return case.curve.evidence(moved) if is_still else ()
    first, last = case.figures.get("train_loss_initial"), case.figures.get("train_loss_mean_last_epoch")
    if case.curve.losses or not first or last is None or abs(first - last) >= MOVED * abs(first):
        return ()
    return tuple(case.metric("train_loss_initial", "train_loss_mean_last_epoch"))


def _longer(case: RoundCase) -> Patch | None:
    epochs = case.value("training.epochs")
    return (
        case.suggest(training__epochs=3 * max(epochs, 1))
        if isinstance(epochs, int)
        else _livelier(case, _rate(case))
    )


def _livelier(case: RoundCase, rate: float | None) -> Patch | None:
    if rate is not None and rate < _HIGHEST_RATE:
        return _with_rate(case, max(min(10 * rate, _HIGHEST_RATE), _USUAL_RATE))
    return case.suggest(training__loss="bce" if case.value("training.loss") != "bce" else "focal")


_OUTCOME = ("backend_gap", "failures")
"""Losses that ask the backend."""


def _has_few_numbers(case: RoundCase) -> bool:
    """Whether `loss: failures` can search the model, in front of ordered statistics."""
    env, block = case.around.env, (case.config or {}).get("neural_bp") or {}
    return (
        env is not None
        and env.spec.classical_backend == "osd"
        and case.value("type") == "neural_bp"
        and block.get("weight_sharing", "per_layer") == "per_layer"
        and block.get("memory", "none") == "none"
        and not block.get("prior_mix")
    )


def _nearer_to_decoding(case: RoundCase) -> Patch | None:
    if case.value("output_mode") == "hard_flip":
        has_confidence = (case.config or {}).get("hard_flip") is not None
        without: dict[str, Any] = {"hard_flip": REMOVED} if has_confidence else {}
        return case.suggest(output_mode="soft_priors", **without)
    env, problem = case.around.env, case.around.problem
    one = problem is None or env is None or env.spec.classical_backend == "osd" or problem.n_observables == 1
    if case.value("training.loss") not in _OUTCOME and one:
        return case.suggest(training__loss="failures" if _has_few_numbers(case) else "backend_gap")
    iterations = case.value("neural_bp.iterations")
    if isinstance(iterations, int):
        return case.suggest(neural_bp__iterations=2 * iterations)
    return case.suggest(type="hybrid", neural_bp={})


def _saturated(case: RoundCase, plain: float, shots: int) -> Finding:
    return Finding(
        "high",
        "the plain decoder is about as good as guessing at this p: far above the threshold there is nothing to improve",
        (*_headline(case, round(plain * shots), shots), Evidence("LER of guessing", _guessing(case, plain))),
        "lower noise.p until the plain decoder's LER is below 0.05: autoqec baseline shows it along the sweep",
        env_change=_better_p(case),
    )


def _headline(case: RoundCase, failures: int, shots: int) -> list[Evidence]:
    counted = Evidence(f"{case.source}: per_p failures of the plain decoder", f"{failures} in {shots} shots")
    return [*case.metric("reference_p", "ler_plain_classical", "ler_predecoder"), counted]


def _guessing(case: RoundCase, plain: float) -> float:
    """Of k observables, all are right by chance once in 2^k. Unknown k: one, unless there are too many failures for that."""
    if case.around.problem is not None:
        return 1.0 - 0.5**case.around.problem.n_observables
    return 0.5 if plain < 0.6 else 1.0


def _detectable(shots: int, ler: float) -> float | None:
    return detectable_effect(shots, ler) if 0 < ler <= 0.5 else None if ler <= 0 else 0.0


def _better_p(case: RoundCase) -> Change | None:
    """Another p of the sweep at which the same shots show the smallest gain, where there is one."""

    def visible(row: Row) -> float | None:
        ler, shots = real(row.get("ler_plain")), real(row.get("shots"))
        if ler is None or not shots or ler >= SATURATED * _guessing(case, ler):
            return None
        return _detectable(int(shots), ler)

    rows = [row for row in case.figures.get("per_p") or [] if isinstance(row, dict)]
    found = [
        (effect, row["p"])
        for row in rows
        if (effect := visible(row)) is not None and effect <= MINIMUM_EFFECT
    ]
    here = case.figures.get("reference_p")
    best = min(found, default=None)
    return None if best is None or best[1] == here else Change("noise.reference_p", here, best[1])
