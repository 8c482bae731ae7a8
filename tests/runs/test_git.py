"""git does what AutoQEC asks, whatever the user's configuration, environment and names are."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from tiny_runs import make_checkout, user_git

from autoqec.errors import InputError, UnavailableError
from autoqec.io.git import Git, GitError
from autoqec.runs.names import RoundName, check_slug, parse_branch, slug_of
from autoqec.runs.repository import commit_files


@pytest.fixture
def git(checkout: Path) -> Git:
    return Git(checkout)


def test_the_users_environment_and_configuration_change_nothing(
    git: Git, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "someone")
    hooks = checkout / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "commit-msg", "reference-transaction", "post-checkout", "pre-merge-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-{name}\nexit 1\n")
        (hooks / name).chmod(0o755)
    with (checkout / ".git" / "config").open("a") as config:
        config.write("[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = /bin/false\n[core]\n\tpager = false\n")
    head = git.resolve("HEAD")
    sha = commit_files(git, head, {"naïve dir/ü.txt": b"x"}, "message\n")
    git.create_ref("refs/heads/new", sha)
    assert git("log", "-1", "--format=%an <%ae>", sha).strip() == "AutoQEC <autoqec@localhost>"
    assert git.paths("diff", "--name-only", "-z", head, sha) == ["naïve dir/ü.txt"]
    assert git.file_at(sha, "naïve dir/ü.txt") == b"x"
    git("worktree", "add", "--quiet", str(tmp_path / "wörk tree"), "new")
    assert (tmp_path / "wörk tree" / "naïve dir" / "ü.txt").read_bytes() == b"x"
    assert not list(tmp_path.glob("hook-*"))


def test_binary_content_survives(git: Git) -> None:
    data = bytes(range(256)) + b"\r\n\xff"
    sha = commit_files(git, git.resolve("HEAD"), {"data.bin": data}, "m\n")
    assert git.file_at(sha, "data.bin") == data
    assert git.file_at(sha, "none") is None


def test_an_error_has_the_command_the_place_and_what_git_said(git: Git, checkout: Path) -> None:
    with pytest.raises(GitError) as caught:
        git("merge-base", "HEAD", "nonsense")
    assert "git merge-base HEAD nonsense" in str(caught.value)
    assert str(checkout) in str(caught.value)
    assert "nonsense" in caught.value.stderr
    assert caught.value.code == 128


def test_without_git_the_mend_is_said(git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UnavailableError, match="install git"):
        git("rev-parse", "HEAD")


def test_refs_are_made_moved_and_deleted_only_from_where_they_are_believed_to_be(
    git: Git, checkout: Path
) -> None:
    first = git.resolve("HEAD")
    second = commit_files(git, first, {"x": b"1"}, "m\n")
    ref = "refs/heads/exp/x"
    git.create_ref(ref, first)
    with pytest.raises(GitError):
        git.create_ref(ref, second)
    with pytest.raises(GitError):
        git.move_ref(ref, first, before=second)
    git.move_ref(ref, second, before=first)
    with pytest.raises(GitError):
        git.delete_ref(ref, before=first)
    assert git.refs("refs/heads/") == {ref: second, "refs/heads/main": first}
    git.delete_ref(ref, before=second)
    assert git.branch("exp/x") is None
    assert git.is_ancestor(first, second)
    assert not git.is_ancestor(second, first)


def test_a_git_that_is_still_running_keeps_the_lock(git: Git, checkout: Path) -> None:
    with git.lock():
        handle = os.open(checkout / ".git" / "autoqec.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen = git("-c", "alias.seen=!ls -l /proc/self/fd", "seen")
        assert "autoqec.lock" in seen
        os.close(handle)


HOSTILE = [
    "",
    "-rf",
    "--",
    "a/b",
    "..",
    "A",
    "a b",
    "a.lock",
    "a@{1}",
    "a\n",
    "ä",
    "a" * 41,
    "a;rm",
    "$(x)",
    "a\\b",
    "~",
    "a:b",
]


@pytest.mark.parametrize("slug", HOSTILE)
def test_hostile_slugs_are_refused(slug: str) -> None:
    with pytest.raises(InputError):
        check_slug(slug)
    with pytest.raises(InputError):
        RoundName("20260101-000000", 1, slug)


@pytest.mark.parametrize(
    "branch",
    [
        "main", "HEAD", "", "-d", "exp/20260101-000000/1-x", "exp/20260101-000000/001-x", "exp/20260101-000000/01-",
        "exp/20260101-000000/00-x", "exp/../main/01-x", "exp/20260101-000000/../01-x", "refs/heads/exp/20260101-000000/01-x",
        "exp/20260101-000000/01-x\n", "exp/20260101-000000/01-x y", "quarantine/20260101-000000/01-x",
        "exp/20260101-000000/01--x", "exp/٢٠٢٦٠١٠١-٠٠٠٠٠٠/01-x", "exp/a--b/01-x", "exp/a-/01-x", "exp/a.b/01-x", "exp/1a/01-x",
        "exp/ä/01-x", "exp/-a/01-x", "exp/a b/01-x", "exp/a\n/01-x", f"exp/{'a' * 41}/01-x",
    ],
)  # fmt: skip
def test_hostile_branch_names_are_refused(branch: str) -> None:
    with pytest.raises(InputError, match="experiment branch"):
        parse_branch(branch)


def test_names_and_slugs() -> None:
    name = RoundName("20260101-000000", 7, "wider-gnn")
    assert name.branch == "exp/20260101-000000/07-wider-gnn"
    assert name.worktree == "exp-20260101-000000-07-wider-gnn"
    assert parse_branch(name.branch) == name
    assert parse_branch("exp/20260101-000000/123-x").round == 123
    assert slug_of("Gated MLP: does it help? (Ünïcode) " + "very " * 20).startswith(
        "gated-mlp-does-it-help-n-code-very"
    )
    assert slug_of("!!!") == "round"
    for text in ("x" * 100, "-a-", "A B", "0"):
        check_slug(slug_of(text))


def test_every_round_has_its_own_seed() -> None:
    names = [
        RoundName(run, number, "x")
        for run in ("20260101-000000", "20260101-000001")
        for number in range(1, 200)
    ]
    seeds = [name.train_seed for name in names]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**53 for seed in seeds)
    assert RoundName("20260101-000000", 1, "other").train_seed == seeds[0]


def test_a_repository_with_spaces_and_another_default_branch(tmp_path: Path) -> None:
    folder = make_checkout(tmp_path / "naïve folder with ' and \"", branch="trunk")
    git = Git(folder)
    assert git.common_dir == (folder / ".git").resolve()
    assert git.refs("refs/heads/") == {"refs/heads/trunk": git.resolve("HEAD")}
    user_git(folder, "worktree", "add", "--quiet", "-b", "second", "../second tree")
    assert Git(tmp_path / "second tree").common_dir == (folder / ".git").resolve()
