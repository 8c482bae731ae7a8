"""The loss never moved: nothing was learned."""

from __future__ import annotations

from autoqec.report.diagnose.case import RoundCase
from autoqec.report.diagnose.finding import Evidence, Finding, Patch
from autoqec.report.diagnose.loss_curve import SHORT
from autoqec.search.analyst import MOVED, kept_step

RESOLVED = 0.1
"""A curve on which a change of this share would not have been clear says little."""

_LOWEST_RATE = 1e-5
"""Below this no training of this length moves anything."""

_USUAL_RATE = 1e-3
_HIGHEST_RATE = 1e-2


def find(case: RoundCase) -> Finding | None:
    """A round that gains is only blamed if the curve is clear and no training state was better than the untrained one."""
    if case.status != "ok" or not case.figures.get("train_batches_total"):
        return None
    evidence = _evidence(case)
    if not evidence:
        return None
    rate, moved = case.value("training.learning_rate"), case.curve.movement()
    is_tiny = isinstance(rate, int | float) and rate < _LOWEST_RATE
    is_clear = moved is not None and moved.resolution <= RESOLVED and len(case.curve.losses) >= SHORT
    if case.gains and (kept_step(case.figures) != 0 or not (is_tiny or is_clear)):
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
        _suggestion(case, longer=not (is_tiny or is_clear)),
    )


def _evidence(case: RoundCase) -> tuple[Evidence, ...]:
    """That the loss stayed where it was; empty if it did not, or nobody knows."""
    moved = case.curve.movement()
    if moved is not None:
        is_still = not moved.is_clear or abs(moved.share) < MOVED
        return case.curve.evidence(moved) if is_still else ()
    first, last = case.figures.get("train_loss_initial"), case.figures.get("train_loss_mean_last_epoch")
    if case.curve.losses or not first or last is None or abs(first - last) >= MOVED * abs(first):
        return ()
    return tuple(case.metric("train_loss_initial", "train_loss_mean_last_epoch"))


def _suggestion(case: RoundCase, *, longer: bool) -> Patch | None:
    epochs, rate, loss = (case.value(f"training.{name}") for name in ("epochs", "learning_rate", "loss"))
    if longer and isinstance(epochs, int):
        return case.suggest(training__epochs=3 * max(epochs, 1))
    if isinstance(rate, int | float) and rate < _HIGHEST_RATE:
        higher = max(min(10 * rate, _HIGHEST_RATE), _USUAL_RATE)
        return case.suggest(training__learning_rate=float(f"{higher:.3g}"))
    return case.suggest(training__loss="bce" if loss != "bce" else "focal")
