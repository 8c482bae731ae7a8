"""Rounds side by side: what they know of each other, and that neither kills nor lost workers change what they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from crash_points import in_child, with_crash
from offline_world import plan, play, steps, without_times
from parallel_world import DEADLY, play_parallel
from tiny_runs import user_git

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.runs.history import rounds_of
from autoqec.search.distance import REPEAT_DISTANCE, distance
from autoqec.search.proposal import Proposal, RoundContext

pytestmark = pytest.mark.runs

COMPARED = (
    "round",
    "train_seed",
    "config_hash",
    "dsl_config",
    "ler_predecoder",
    "delta_ler",
    "status",
    "branch",
)


def told(workspace: Path, wanted, names: tuple[str, ...] = COMPARED) -> list[dict]:
    return [{name: row[name] for name in names} for row in steps(workspace, wanted).run.history.rows()]


class Watch:
    """A proposer of random templates that notes what it was told."""

    name = "templates"

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.known: dict[int, tuple[list[int], list[int]]] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def propose(self, context: RoundContext) -> Proposal:
        rounds = ([row["round"] for row in rows] for rows in (context.history, context.in_flight))
        self.known[context.round] = tuple(rounds)  # type: ignore[assignment]
        return self._inner.propose(context)  # type: ignore[attr-defined,no-any-return]


def test_a_proposal_knows_the_results_up_to_k_rounds_before_it_and_what_is_in_flight(tmp_path: Path) -> None:
    from autoqec.runs.proposer_adapters import make_adapter

    wanted = plan(rounds=5, parallel=3)
    taken = steps(tmp_path, wanted)
    watch = Watch(make_adapter(wanted, taken.run.files))
    taken, outcome = play_parallel(tmp_path, wanted, watch)  # type: ignore[arg-type]
    assert watch.known == {1: ([], []), 2: ([], [1]), 3: ([], [1, 2]), 4: ([1], [2, 3]), 5: ([1, 2], [3, 4])}
    rows = taken.run.history.rows()
    assert [row["round"] for row in rows] == [1, 2, 3, 4, 5]
    assert (outcome.rounds, outcome.stopped) == (5, None)
    assert not taken.run.journals()
    assert not list(taken.run.repository.worktrees.glob("*"))


def test_templates_give_the_rounds_of_a_serial_run(tmp_path: Path) -> None:
    """Their proposals follow from seeds and from what was proposed before, and not from results."""
    serial, side_by_side = plan(rounds=5), plan(rounds=5, parallel=3)
    play(tmp_path / "serial", serial)
    play_parallel(tmp_path / "parallel", side_by_side)
    assert told(tmp_path / "parallel", side_by_side) == told(tmp_path / "serial", serial)


def test_one_round_at_a_time_is_the_serial_run(tmp_path: Path) -> None:
    wanted = plan(rounds=3, proposer="optuna")
    play(tmp_path / "serial", wanted)
    play_parallel(tmp_path / "lanes", wanted)
    rows = [
        [without_times(row) for row in steps(tmp_path / name, wanted).run.history.rows()]
        for name in ("serial", "lanes")
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("proposer", ["optuna", "evolution"])
def test_no_proposal_repeats_what_is_in_flight(tmp_path: Path, proposer: str) -> None:
    wanted = plan(rounds=6, proposer=proposer, parallel=4)
    taken, _ = play_parallel(tmp_path, wanted)
    configs = [PredecoderDSL.model_validate(row["dsl_config"]) for row in taken.run.history.rows()]
    assert len(configs) == 6
    for place, one in enumerate(configs):
        assert all(distance(one, other) >= REPEAT_DISTANCE for other in configs[:place])


def test_rounds_side_by_side_that_are_killed_anywhere_go_on_to_the_same_rounds(tmp_path: Path) -> None:
    wanted = plan(rounds=4, proposer="optuna", parallel=2)
    log, whole = tmp_path / "points", tmp_path / "whole"
    assert in_child(with_crash(lambda: play_parallel(whole, wanted), AUTOQEC_CRASH_LOG=str(log))) == 0
    expected = [without_times(row) for row in steps(whole, wanted).run.history.rows()]
    points = len(log.read_text().splitlines())
    for number in range(11, points, max(1, points // 4)):
        workspace = tmp_path / f"killed-{number}"
        killed = in_child(
            with_crash(lambda w=workspace: play_parallel(w, wanted), AUTOQEC_CRASH_AT=str(number))
        )
        assert killed < 0, f"point {number} was not reached"
        taken, outcome = play_parallel(workspace, wanted)
        assert outcome.rounds == 4
        found = [without_times(row) for row in taken.run.history.rows()]
        assert found == expected, f"killed at point {number}"
        user_git(workspace / "checkout", "fsck", "--strict")
        assert not list(taken.run.repository.worktrees.glob("*"))


def test_a_lost_worker_costs_no_round_and_one_that_is_always_lost_is_recorded(tmp_path: Path) -> None:
    wanted = plan(rounds=4, parallel=4)
    play_parallel(tmp_path / "calm", wanted)
    (tmp_path / "wild").mkdir()
    (tmp_path / "wild" / DEADLY).write_text("2")
    play_parallel(tmp_path / "wild", wanted)
    assert told(tmp_path / "wild", wanted) == told(tmp_path / "calm", wanted)
    (tmp_path / "doomed").mkdir()
    (tmp_path / "doomed" / DEADLY).write_text("2 2 2")
    taken, outcome = play_parallel(tmp_path / "doomed", wanted)
    rows = rounds_of(taken.run.history.rows())
    assert outcome.rounds == 4
    assert [row["status"] for row in rows] == ["ok", "killed_by_safety", "ok", "ok"]
    assert rows[1]["failure_kind"] == "killed"
    assert "3 times" in rows[1]["status_reason"]
    assert rows[1]["config_hash"] == told(tmp_path / "calm", wanted)[1]["config_hash"]


def test_time_of_rounds_in_flight_counts_in_the_budget(tmp_path: Path) -> None:
    taken = steps(tmp_path, plan(rounds=9, parallel=3, budget_minutes=1))
    assert taken.room() is None
    taken.propose(Proposal(hypothesis="long ago"))
    journal = taken.run.files.journal(1)
    year = journal.read_text().partition('"started_at": "')[2][:4]
    journal.write_text(journal.read_text().replace(f'"started_at": "{year}', '"started_at": "2020'))
    full = taken.room()
    assert full is not None
    assert "budget of 1 minutes" in full.reason
