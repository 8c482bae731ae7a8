"""git in a worktree goes by the repository, whatever lies in the worktree."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import user_git

from autoqec.errors import InputError
from autoqec.io.git import Git, checked_out, own_repositories
from autoqec.runs.names import RoundName
from autoqec.runs.repository import Repository
from autoqec.runs.worktrees import Worktree

NAME = RoundName("20260101-000000", 1, "coder")


@pytest.fixture
def worktree(checkout: Path) -> Worktree:
    (checkout / "experiment").mkdir()
    (checkout / "experiment" / "type.yaml").write_text("type: gnn\n")
    user_git(checkout, "add", "-A")
    user_git(checkout, "commit", "--quiet", "-m", "experiment")
    user_git(checkout, "branch", NAME.branch)
    worktree = Worktree(Repository(checkout), NAME, Git(checkout))
    worktree.make()
    return worktree


def fake(folder: Path, head: str) -> None:
    """A repository of text files alone."""
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text(f"{head}\n")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")


def test_a_commit_and_the_state_of_a_worktree_do_not_depend_on_its_git_file(
    worktree: Worktree, checkout: Path
) -> None:
    tip = user_git(checkout, "rev-parse", NAME.branch).strip()
    assert checked_out(worktree.path) == tip
    fake(worktree.path / "fake", head=40 * "1")
    (worktree.path / ".git").write_text(f"gitdir: {worktree.path}/fake\n")
    assert checked_out(worktree.path) == tip
    commit = worktree.commit_all(tip, "message\n")
    assert user_git(checkout, "rev-parse", NAME.branch).strip() == commit
    assert not worktree.is_whole
    worktree.reset(commit)
    assert worktree.is_whole
    assert checked_out(worktree.path) == commit
    assert user_git(worktree.path, "status", "--porcelain") == ""


@pytest.mark.parametrize("kind", ["folder", "file", "link", "upper"])
def test_a_repository_inside_is_not_committed_and_gone_after_a_reset(
    worktree: Worktree, checkout: Path, kind: str, tmp_path: Path
) -> None:
    tip = user_git(checkout, "rev-parse", NAME.branch).strip()
    inner = worktree.path / "experiment" / "inner"
    inner.mkdir()
    if kind == "file":
        (inner / ".git").write_text("gitdir: ../..\n")
    elif kind == "link":
        (inner / ".git").symlink_to(tmp_path)
    else:
        fake(inner / (".git" if kind == "folder" else ".GIT"), head=tip)
    assert [path.name.lower() for path in own_repositories(worktree.path)] == [".git"]
    with pytest.raises(InputError, match="a repository of its own"):
        worktree.commit_all(tip, "message\n")
    worktree.reset(tip)
    assert own_repositories(worktree.path) == []
    assert not inner.exists()
    assert tmp_path.is_dir()


def test_what_the_index_was_told_not_to_look_at_is_reset(worktree: Worktree, checkout: Path) -> None:
    tip = user_git(checkout, "rev-parse", NAME.branch).strip()
    module = worktree.path / "autoqec" / "decoders" / "modules" / "gnn.py"
    before = module.read_text()
    user_git(worktree.path, "update-index", "--skip-worktree", "autoqec/decoders/modules/gnn.py")
    module.write_text("EVIL = 1\n")
    worktree.reset(tip)
    assert module.read_text() == before


def test_filters_and_merge_drivers_of_the_user_are_not_run_for_a_worktree(
    worktree: Worktree, checkout: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    for name in ("filter.users.clean", "filter.users.smudge", "merge.users.driver"):
        user_git(checkout, "config", name, f"touch {mark} && cat")
    user_git(checkout, "config", "filter.users.required", "true")
    (worktree.path / ".gitattributes").write_text("* filter=users merge=users\n")
    (worktree.path / "autoqec" / "decoders" / "modules" / "gnn.py").write_text("LAYERS = 2\n")
    tip = user_git(checkout, "rev-parse", NAME.branch).strip()
    commit = worktree.commit_all(tip, "message\n")
    other = tmp_path / "other"
    user_git(checkout, "worktree", "add", "--quiet", "-b", "side", str(other), tip)
    (other / "autoqec" / "__init__.py").write_text("SIDE = 1\n")
    user_git(other, "commit", "--quiet", "-am", "side")
    worktree.reset(commit)
    worktree.merge([user_git(checkout, "rev-parse", "side").strip()])
    assert (worktree.path / "autoqec" / "__init__.py").read_text() == "SIDE = 1\n"
    assert not mark.exists()
    assert user_git(checkout, "show", f"{commit}:autoqec/decoders/modules/gnn.py") == "LAYERS = 2\n"


def test_a_folder_that_is_no_checkout_has_no_commit(
    tmp_path: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checked_out(tmp_path) is None
    assert checked_out(checkout / "autoqec") is None
    assert checked_out(checkout) == user_git(checkout, "rev-parse", "HEAD").strip()
    monkeypatch.chdir(checkout)
    assert checked_out(Path()) == checked_out(checkout)
