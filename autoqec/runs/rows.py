"""The history rows of rounds: what was measured, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from autoqec.io.jsonl import Row
from autoqec.runner.schema import Failure, RoundMetrics, canonical_fork
from autoqec.runs.journal import Journal
from autoqec.runs.worktrees import ComposeConflict
from autoqec.search.proposal import BASELINE


def round_row(journal: Journal, metrics: RoundMetrics, history: Sequence[Row]) -> Row:
    """The row of a round that was committed."""
    parent_ler = _parent_ler(journal, metrics, history)
    known = parent_ler is not None and metrics.ler_predecoder is not None
    return {
        **metrics.model_dump(mode="json"),
        **_origin(journal),
        "branch": journal.name.branch,
        "commit_sha": journal.commit_sha,
        "train_seed": journal.name.train_seed,
        "parent_ler": parent_ler,
        "delta_vs_parent": parent_ler - metrics.ler_predecoder if known else None,  # type: ignore[operator]
    }


def conflict_row(journal: Journal, conflict: ComposeConflict) -> Row:
    metrics = RoundMetrics(
        **Failure("compose_conflict", conflict.what).metrics(),
        conflicting_files=conflict.files,
        round_attempt_id=journal.round_attempt_id,
    )
    return {**metrics.model_dump(mode="json"), **_origin(journal)}


def refused_row(journal: Journal, failure: Failure) -> Row:
    """The row of a round that never had a config to commit."""
    return {
        **RoundMetrics(**failure.metrics()).model_dump(mode="json"),
        **_origin(journal),
    }


def _origin(journal: Journal) -> Row:
    return {
        "round": journal.round,
        "hypothesis": journal.proposal.hypothesis,
        "started_at": journal.started_at,
        "round_attempt_id": journal.round_attempt_id,
        "fork_from": journal.proposal.fork_from,
        "fork_from_canonical": canonical_fork(journal.proposal.fork_from),
        "fork_from_ordered": journal.ordered,
        "compose_mode": journal.proposal.compose_mode,
    }


def _parent_ler(journal: Journal, metrics: RoundMetrics, history: Sequence[Row]) -> float | None:
    """What the round has to beat: the plain decoder for a fork of the baseline, else the best of its parents."""
    fork_from = journal.proposal.fork_from
    if fork_from == BASELINE:
        return metrics.ler_plain_classical
    parents = [fork_from] if isinstance(fork_from, str) else fork_from
    found = [
        row["ler_predecoder"]
        for row in history
        if row["branch"] in parents and row["ler_predecoder"] is not None
    ]
    return min(found, default=None)
