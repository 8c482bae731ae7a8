"""Which repositories can hold experiments, and what AutoQEC leaves alone in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import changed, make_checkout, make_run, play, user_git

from autoqec.errors import InputError
from autoqec.io.child_env import child_environment
from autoqec.runs import repository as repository_module
from autoqec.runs.repository import Repository, base_ref, open_checkout, open_default, open_workspace
from autoqec.runs.run import Run


def fingerprint(checkout: Path) -> dict[str, object]:
    """All of a user's checkout that AutoQEC must not touch."""
    git_dir = checkout / ".git"
    return {
        "index": (git_dir / "index").read_bytes(),
        "index_mtime": (git_dir / "index").stat().st_mtime_ns,
        "head": (git_dir / "HEAD").read_text(),
        "config": (git_dir / "config").read_text(),
        "main": user_git(checkout, "rev-parse", "HEAD"),
        "status": user_git(checkout, "--no-optional-locks", "status", "--porcelain", "--ignored=no"),
        "files": {
            str(path.relative_to(checkout)): path.read_bytes()
            for path in checkout.rglob("*")
            if path.is_file() and not path.is_relative_to(git_dir)
        },
    }


def test_rounds_leave_branch_index_and_files_of_the_user_alone(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "my päth", branch="trunk")
    (checkout / ".gitignore").write_text("__pycache__/\n")  # does not know .worktrees
    user_git(checkout, "commit", "-qam", "own ignore file")
    (checkout / "notes.txt").write_text("untracked, and none of AutoQEC's business")
    for name in ("pre-commit", "reference-transaction", "post-checkout"):
        hook = checkout / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
    before = fingerprint(checkout)
    run = make_run(tmp_path / "wörk space", open_checkout(checkout))
    a = play(run, "a", changed(neural_bp={"iterations": 6}))
    b = play(run, "b", changed(training={"epochs": 1}))
    both = play(run, "both", fork_from=[a["branch"], b["branch"]], compose_mode="pure")
    assert [row["status"] for row in (a, b, both)] == ["ok"] * 3
    assert fingerprint(checkout) == before
    assert user_git(checkout, "worktree", "list").count("\n") == 1


def test_a_dirty_checkout_is_refused_with_what_is_dirty(checkout: Path) -> None:
    (checkout / "README.md").write_text("changed")
    with pytest.raises(InputError, match=r"not committed.*README\.md"):
        open_checkout(checkout)
    user_git(checkout, "add", "-A")
    with pytest.raises(InputError, match=r"README\.md"):
        open_checkout(checkout)
    user_git(checkout, "commit", "-qm", "x")
    (checkout / "autoqec" / "decoders" / "modules" / "new.py").write_text("")
    with pytest.raises(InputError, match=r"new\.py"):
        open_checkout(checkout)
    (checkout / "autoqec" / "decoders" / "modules" / "new.py").unlink()
    (checkout / "scratch.txt").write_text("")
    assert open_checkout(checkout).root == checkout.resolve()


def test_bare_shallow_empty_and_foreign_repositories_are_refused(checkout: Path, tmp_path: Path) -> None:
    user_git(tmp_path, "clone", "-q", "--bare", str(checkout), "bare")
    with pytest.raises(InputError, match="bare"):
        open_checkout(tmp_path / "bare")
    user_git(checkout, "commit", "-q", "--allow-empty", "-m", "second")
    user_git(tmp_path, "clone", "-q", "--depth", "1", f"file://{checkout}", "shallow")
    with pytest.raises(InputError, match="shallow"):
        open_checkout(tmp_path / "shallow")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="git repository"):
        open_checkout(tmp_path / "empty")
    user_git(tmp_path / "empty", "init", "-q")
    with pytest.raises(InputError, match="no commit"):
        open_checkout(tmp_path / "empty")
    user_git(tmp_path / "empty", "commit", "-q", "--allow-empty", "-m", "x")
    with pytest.raises(InputError, match="not a checkout of AutoQEC"):
        open_checkout(tmp_path / "empty")
    with pytest.raises(InputError, match="git repository"):
        open_checkout(tmp_path / "missing")


def test_a_linked_worktree_of_the_user_will_do(checkout: Path, tmp_path: Path) -> None:
    user_git(checkout, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "linked"))
    run = make_run(tmp_path / "w", open_checkout(tmp_path / "linked"))
    assert play(run, "a", changed())["status"] == "ok"
    assert user_git(checkout, "worktree", "list").count("\n") == 2


def test_a_branch_that_blocks_the_names_is_said(checkout: Path, tmp_path: Path) -> None:
    user_git(checkout, "branch", "exp")
    with pytest.raises(InputError, match="git branch -m exp"):
        make_run(tmp_path / "w", open_checkout(checkout))


def test_the_base_of_a_run_adds_the_experiment_and_stays(repository: Repository, run: Run) -> None:
    git = repository.git
    head = git.resolve("HEAD")
    base = run.info.base_commit
    assert git.resolve(base_ref(run.run_id)) == base
    assert git("rev-parse", f"{base}^").strip() == head
    assert all(path.startswith("experiment/") for path in git.paths("diff", "--name-only", "-z", head, base))
    from autoqec.search.proposal import BASELINE_CONFIG

    assert repository.make_base(run.run_id, BASELINE_CONFIG) == base
    user_git(repository.root, "gc", "-q", "--prune=now")
    assert git.resolve(base) == base


@pytest.mark.slow
def test_an_installed_package_gets_a_repository_of_its_own(tmp_path: Path) -> None:
    workspace = tmp_path / "käse kuchen"
    repository = open_workspace(workspace)
    assert repository.root.is_relative_to(workspace / ".autoqec" / "experiments")
    assert open_workspace(workspace).root == repository.root
    assert len(list(repository.root.parent.iterdir())) == 1
    assert (repository.root / "autoqec" / "decoders" / "modules" / "neural_bp.py").is_file()
    assert not list(repository.root.rglob("__pycache__"))
    assert user_git(repository.root, "status", "--porcelain", "--ignored") == ""
    done = subprocess.run(
        [sys.executable, "-m", "cli.autoqec", "env", "list", "--json"],
        cwd=repository.root,
        env=child_environment(PYTHONPATH=str(repository.root), PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "surface_d3_depol" in done.stdout
    where = subprocess.run(
        [sys.executable, "-c", "import autoqec.decoders.modules, cli; print(autoqec.__file__)"],
        cwd=repository.root,
        env=child_environment(PYTHONPATH=str(repository.root), PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.strip() == str(repository.root / "autoqec" / "__init__.py")


def test_the_default_is_the_checkout_only_for_those_who_work_in_it(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_module, "installed_root", lambda: checkout)
    assert open_default(checkout / "runs").root == checkout.resolve()
    branches = subprocess.run(
        ["git", "branch", "--all"], cwd=checkout, capture_output=True, check=True
    ).stdout
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert open_default(elsewhere).root.is_relative_to(elsewhere / ".autoqec")
    after = subprocess.run(["git", "branch", "--all"], cwd=checkout, capture_output=True, check=True).stdout
    assert after == branches
