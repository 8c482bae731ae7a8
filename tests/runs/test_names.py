"""Names that users give to runs: safe as folders and git refs, and never taken for another run's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import play

from autoqec.errors import InputError
from autoqec.runs.experiment import Experiment
from autoqec.runs.names import RoundName, parse_branch
from autoqec.runs.repository import Repository
from autoqec.runs.run import Run
from autoqec.runs.worktrees import Limits
from autoqec.search.proposal import Proposal


@pytest.mark.parametrize("run_id", ["a", "first-try", "Sweep_2", "try-10", "a-01", "x" * 40])
def test_a_run_may_have_a_name(run_id: str) -> None:
    name = RoundName(run_id, 7, "wider-gnn")
    assert parse_branch(name.branch) == name
    assert name.train_seed != RoundName("another", 7, "wider-gnn").train_seed


def test_no_two_rounds_share_a_worktree() -> None:
    """Ids that begin alike, and slugs that read like the rest of a longer id."""
    ids = ["a", "a-01", "a-01-b", "a-1", "20260101-000000", "20260102-000000"]
    slugs = ["x", "01-x", "b", "b--01-x", "0-01-x", "01--02-x"]
    names = [RoundName(run_id, number, slug) for run_id in ids for number in (1, 2) for slug in slugs]
    assert len({name.worktree for name in names}) == len(names)


def test_a_run_takes_no_worktree_of_a_longer_name(tmp_path: Path, repository: Repository) -> None:
    short, long = (
        Run.create(
            tmp_path / name, "surface_d3_depol", repository, run_id=name, limits=Limits(min_free_gb=0.0)
        )
        for name in ("a", "a-01")
    )
    Experiment.begin(long, Proposal(hypothesis="in flight", slug="x")).prepare()
    assert long.checked_out() == ["01-x"]
    assert short.checked_out() == []


def test_a_name_that_the_repository_knows_is_refused(tmp_path: Path, repository: Repository) -> None:
    def make(workspace: str) -> Run:
        limits = Limits(min_free_gb=0.0)
        return Run.create(tmp_path / workspace, "surface_d3_depol", repository, run_id="a", limits=limits)

    play(make("one"), "x")
    with pytest.raises(InputError, match="exp/a/01-x"):
        make("two")
    assert not (tmp_path / "two").exists()
