"""Rows obey the contract when they are written, and an attempt has one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoqec.errors import InputError
from autoqec.layout import RunDir
from autoqec.runs.history import HistoryStore

BRANCH = "exp/20260101-000000/01-x"
ROW = {
    "status": "ok",
    "round": 1,
    "round_attempt_id": "a1",
    "branch": BRANCH,
    "commit_sha": "c" * 40,
    "fork_from": "baseline",
    "fork_from_canonical": "baseline",
}


@pytest.fixture
def store(tmp_path: Path) -> HistoryStore:
    return HistoryStore(RunDir(tmp_path))


def test_a_row_is_a_superset_of_the_metrics_and_keeps_what_it_does_not_know(
    store: HistoryStore, tmp_path: Path
) -> None:
    store.append({**ROW, "hypothesis": "more", "verdict": "candidate", "cost_usd": 0.25, "tokens": {"in": 5}})
    (row,) = store.rows()
    assert (row["delta_ler"], row["n_params"], row["cost_usd"], row["tokens"]) == (
        None,
        None,
        0.25,
        {"in": 5},
    )
    store.publish()
    assert json.loads((tmp_path / "history.json").read_text()) == [row]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"round_attempt_id": None}, "round_attempt_id"),
        ({"reconcile_id": "r"}, "exclude"),
        ({"commit_sha": None}, "commit_sha"),
        ({"branch": None}, "branch"),
        ({"status": "compose_conflict", "conflicting_files": []}, "null"),
        ({"status": "compose_conflict", "branch": None, "commit_sha": None}, "conflicting_files"),
        ({"conflicting_files": ["x"]}, "conflicting_files"),
        ({"fork_from": ["a", "b"], "fork_from_canonical": "b|a"}, "canonical"),
        ({"status": "fine"}, "status"),
        ({"delta_ler": "high"}, "delta_ler"),
        ({"round": 0}, "round"),
        ({"verdict": "good"}, "verdict"),
    ],
)
def test_a_row_that_breaks_the_contract_is_not_written(store: HistoryStore, change: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        store.append({**ROW, **change})
    assert store.rows() == []


def test_an_attempt_has_one_row_and_follow_ups_come_on_top(store: HistoryStore) -> None:
    other_process = HistoryStore(RunDir(store._array.parent))
    assert store.append(ROW)
    assert not other_process.append({**ROW, "round": 2})
    deleted = {**ROW, "status": "branch_manually_deleted", "commit_sha": None}
    assert other_process.append(deleted)
    assert not store.append(deleted)
    assert store.append({**ROW, "round_attempt_id": "a2", "branch": f"{BRANCH}2"})
    assert [row["status"] for row in store.rows()] == ["ok", "branch_manually_deleted", "ok"]
    assert store.of_attempt("a1")["status"] == "ok"
    assert store.of_attempt("a3") is None


def test_rows_of_the_smoke_loop_need_no_branch(store: HistoryStore) -> None:
    for number in (1, 2):
        assert store.append({"status": "ok", "round": number})
    assert len(store.rows()) == 2
