"""The analyst without a language model: verdict, one line and a seed for the next hypothesis, all from the metrics.

Candidate, that is worth a verification, is a round that ended ok and either

- gains significantly: the lower end of delta's interval is above 0; or
- fills a gap of the front: delta is above 0 and, taken as it is, would enlarge the hypervolume of the verified front by at
  least `GAP_SHARE`. This is for cheap designs whose small gain the validation shots cannot prove and the verifier can. With
  no verified member yet there is no gap, only the first rule.

A language model may add words: see `agents.words_check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from autoqec.runner.schema import FailureKind, RoundStatus
from autoqec.search.proposal import Row
from autoqec.stats.pareto import REFERENCE, volume

Verdict = Literal["candidate", "ignore"]
GAP_SHARE = 0.05
MOVED = 0.02
"""A loss that changed by less than this share of its first value never moved."""


@dataclass(frozen=True)
class Analysis:
    """What is recorded about a round. corrections: what had to be corrected in somebody's words, as plain sentences."""

    summary_1line: str
    verdict: Verdict
    next_hypothesis_seed: str
    corrections: tuple[str, ...] = ()


def analyse(metrics: Row, front: Iterable[Row] = ()) -> Analysis:
    """front: rows of pareto.json."""
    return Analysis(
        summary_1line=summary(metrics, front),
        verdict=verdict(metrics, front),
        next_hypothesis_seed=next(findings(metrics)),
    )


def verdict(metrics: Row, front: Iterable[Row] = ()) -> Verdict:
    return "candidate" if gains(metrics) or fills_gap(metrics, front) else "ignore"


def gains(metrics: Row) -> bool:
    return metrics.get("status") == "ok" and (metrics.get("delta_ler_ci_low") or 0.0) > 0


def fills_gap(metrics: Row, front: Iterable[Row]) -> bool:
    delta, flops, params = (metrics.get(name) for name in ("delta_ler", "flops_per_syndrome", "n_params"))
    members = [
        REFERENCE.box(row["delta_vs_baseline_holdout"], row["flops_per_syndrome"], row["n_params"])
        for row in front
    ]
    if (
        metrics.get("status") != "ok"
        or not members
        or None in (delta, flops, params)
        or float(delta or 0) <= 0
    ):
        return False
    mine = REFERENCE.box(float(delta or 0), float(flops or 0), float(params or 0))
    before = volume(members)
    return volume([*members, mine]) - before >= GAP_SHARE * before


def summary(metrics: Row, front: Iterable[Row] = ()) -> str:
    """One line with the figures that count."""
    if metrics.get("status") != "ok":
        return f"{metrics.get('status')}: no result"
    plain, ours = metrics.get("ler_plain_classical"), metrics.get("ler_predecoder")
    if plain is None or ours is None:
        return "ok, but without logical error rates"
    parts = [f"LER {plain:.4g} -> {ours:.4g}"]
    if metrics.get("reference_p") is not None:
        parts[0] += f" at p = {metrics['reference_p']:g}"
    low, high = metrics.get("delta_ler_ci_low"), metrics.get("delta_ler_ci_high")
    if low is not None and high is not None:
        parts.append(f"delta {plain - ours:.3g} [{low:.3g}, {high:.3g}]")
    if ours:
        parts.append(f"ratio {plain / ours:.3g}")
    if metrics.get("flops_per_syndrome") is not None:
        parts.append(f"{metrics['flops_per_syndrome'] / 1e6:.3g} MFLOP, {metrics.get('n_params')} parameters")
    parts.append(f"trained {metrics.get('train_wallclock_s') or 0.0:.0f} s")
    if metrics.get("over_budget"):
        parts.append("over budget")
    if not gains(metrics) and fills_gap(metrics, front):
        parts.append("fills a gap of the front")
    return "; ".join(parts)


def _moved(metrics: Row) -> float | None:
    """By what share of its first value the loss fell."""
    first, last = metrics.get("train_loss_initial"), metrics.get("train_loss_mean_last_epoch")
    return None if not first or last is None else float(first - last) / abs(float(first))


def _is(status: RoundStatus) -> Callable[[Row], bool]:
    return lambda metrics: metrics.get("status") == status


def _failed(*kinds: FailureKind) -> Callable[[Row], bool]:
    """Rows of older rounds have no kind: only the rules for their status apply to them."""
    return lambda metrics: metrics.get("failure_kind") in kinds


_RULES: tuple[tuple[Callable[[Row], bool], str], ...] = (
    (_is("compile_error"), "the config was refused: change what status_reason names and nothing else"),
    (_failed("nan_loss"), "the loss was not finite: a lower learning_rate, or a normalization"),
    (_is("train_error"), "training failed: simplify the mechanism until it trains"),
    (
        _failed("memory_estimate", "out_of_memory"),
        "out of memory: a smaller batch_size or hidden_dim",
    ),
    (_failed("wall_clock"), "past its time: fewer epochs, iterations or layers"),
    (_is("killed_by_safety"), "killed before it ended: fewer epochs, iterations or layers"),
    (
        _is("compose_conflict"),
        "the parents exclude each other: compose branches that changed different options",
    ),
    (lambda m: m.get("status") != "ok", "no result to build on: fork from another branch"),
    (
        lambda m: bool(m.get("over_budget")),
        "over budget: the same mechanism with half the iterations or width, since cost is an axis of the front",
    ),
    (
        lambda m: m.get("training_kept_step") == 0,
        "no training state beat the untrained one: another loss or a lower learning_rate, or stay untrained and cheap",
    ),
    (
        lambda m: (moved := _moved(m)) is not None and abs(moved) < MOVED,
        "the loss never moved: a higher learning_rate, or a loss whose target the model can see",
    ),
    (
        lambda m: (moved := _moved(m)) is not None and moved >= MOVED and not gains(m),
        "the loss moved but the LER did not: train for the decoding outcome (backend_gap; failures in front of OSD), or change the output mode",
    ),
    (
        lambda m: m.get("training_stopped") == "time_budget",
        "training ran out of time: a cheaper mechanism, or fewer epochs that the schedule can finish",
    ),
    (
        lambda m: gains(m) and not m.get("train_batches_total"),
        "gains without any training: train the same mechanism, or see how few iterations keep the gain",
    ),
    (
        gains,
        "gains: train it longer, compose it with a branch that changed something else, or halve its cost",
    ),
    (lambda _: True, "no significant gain: another type or output mode"),
)


def findings(metrics: Row) -> Iterator[str]:
    """What the metrics say about the next hypothesis, the most pressing first; there is always one."""
    return (words for applies, words in _RULES if applies(metrics))
