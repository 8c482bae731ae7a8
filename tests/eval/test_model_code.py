"""Rounds with a commit: the worker runs the branch's code, the verifier its own."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import autoqec
from autoqec.decoders import checkpoint
from autoqec.envs.environment import Environment
from autoqec.errors import AutoQECError, InputError
from autoqec.eval.bundles import CHUNK
from autoqec.eval.guards import code_scope
from autoqec.eval.model_code import at_commit, check_base
from autoqec.eval.scope import changed_paths, outside
from autoqec.eval.subject import read_subject
from autoqec.eval.verify import VerifyOptions, verify
from autoqec.io.git import Git
from autoqec.layout import VerifierDir
from autoqec.sandbox.installed import installed_root
from autoqec.sandbox.kinds import strongest

Maker = Callable[..., Path]
MODULE = "autoqec/decoders/modules/predecoders.py"
NETWORK = {"type": "gnn", "output_mode": "soft_priors", "gnn": {"layers": 1, "hidden_dim": 4}}

# Belief propagation inside what calls itself a network, in a list, where no state dict sees it.
WEIGHTLESS = """
class _Weightless(GnnPredecoder):
    def __init__(self, dsl, problem):
        super().__init__(dsl, problem)
        from autoqec.decoders.dsl_schema import NeuralBpSpec
        self._table = [LearnedBP(NeuralBpSpec(iterations=6), TannerLinks(problem))]

    def _propagated(self, syndrome, ctx):
        return self.edges.from_faults(self._table[0](syndrome.T, self._prior(syndrome, ctx)))

    def edge_log_odds(self, syndrome, ctx):
        return self._propagated(syndrome, ctx).T

PREDECODERS["gnn"] = _Weightless
"""

# The same, switched on by learned numbers: fresh ones, shuffled ones and other ones have nothing of it.
LEARNED = (
    WEIGHTLESS
    + """

class _Learned(_Weightless):
    def __init__(self, dsl, problem):
        super().__init__(dsl, problem)
        self.gates = nn.Parameter(torch.zeros(self.edges.n_edges))
        signs = torch.ones(self.edges.n_edges)
        signs[torch.arange(self.edges.n_edges) * 7919 % 11 < 5] = -1
        self.register_buffer("signs", signs, persistent=False)

    def edge_log_odds(self, syndrome, ctx):
        base = self._base(syndrome, ctx)
        gate = (self.gates * self.signs)[:, None]
        return (base + gate * (self._propagated(syndrome, ctx) - base)).T

PREDECODERS["gnn"] = _Learned
"""
)


def git(repo: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "commit.gpgSign=false"]
    done = subprocess.run(
        ["git", *settings, "-C", str(repo), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    package = Path(autoqec.__file__).parent
    shutil.copytree(package, root / "autoqec", ignore=shutil.ignore_patterns("__pycache__"))
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "base")
    return root


def branch(repo: Path, name: str, edits: dict[str, str]) -> str:
    """A commit on a new branch with `edits` appended to files; the checkout goes back to main."""
    git(repo, "checkout", "--quiet", "-b", name, "main")
    for path, text in edits.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        with (repo / path).open("a") as file:
            file.write(f"\n\n{text}\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-m", name)
    commit = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "--quiet", "main")
    return commit


def committed(folder: Path, commit: str, name: str, **state: torch.Tensor) -> Path:
    """Gives a round its commit, and more tensors to its checkpoint."""
    content = torch.load(folder / "checkpoint.pt", weights_only=True)
    content["state"] |= state
    buffer = io.BytesIO()
    torch.save(content, buffer)
    (folder / "checkpoint.pt").write_bytes(buffer.getvalue())
    claims = {"status": "ok", "branch": name, "commit_sha": commit}
    (folder / "metrics.json").write_text(json.dumps(claims))
    return folder


def options(home: Path, repo: Path) -> VerifyOptions:
    return VerifyOptions(shots=CHUNK, cap=2 * CHUNK, home=home, repo=repo, base="main", workers=1)


@pytest.mark.verifier
def test_the_branch_s_own_module_is_what_gets_verified(
    make_round: Maker, env: Environment, repo: Path, tmp_path: Path
) -> None:
    """Learned numbers that win are told from an algorithm that does; the installed package knows no such module."""
    commit = branch(repo, "exp/20260101-000000/01-learned", {MODULE: LEARNED})
    edges = env.problem(0.01).graph.n_edges
    gates = np.ones(edges, np.float32)
    gates[np.arange(edges) * 7919 % 11 < 5] = -1
    folder = make_round(tmp_path / "round", NETWORK)
    committed(folder, commit, "exp/20260101-000000/01-learned", gates=torch.from_numpy(gates))
    with pytest.raises(InputError, match="other tensors"):
        checkpoint.load(folder / "checkpoint.pt", env.problem(0.01))
    report = verify(folder, env, options(tmp_path / "home", repo))
    assert report.verdict == "VERIFIED", report.notes
    assert (report.commit_sha, report.branch) == (commit, "exp/20260101-000000/01-learned")
    assert report.ablation.attribution == "weights"
    assert report.ablation.ler_shuffled > report.ablation.ler_baseline
    assert report.ablation.ler_reinitialised == pytest.approx(report.ablation.ler_baseline, rel=0.05)
    assert next(guard for guard in report.guards if guard.name == "code_scope").ok
    # What guards asked of the model's process before does not count against it in the estimate.
    found = report.estimate
    half_width = (found.ler_candidate_ci[1] - found.ler_candidate_ci[0]) / 2
    assert abs(found.ler_candidate - report.ler_holdout) < 5 * half_width
    assert found.untrained is None  # untrained, a network is the plain backend
    assert [row.baseline for row in found.classical] == ["pymatching_correlated"]


@pytest.mark.verifier
def test_a_gain_that_survives_ablation_is_suspicious(
    make_round: Maker, env: Environment, repo: Path, tmp_path: Path
) -> None:
    commit = branch(repo, "exp/20260101-000000/02-weightless", {MODULE: WEIGHTLESS})
    folder = committed(make_round(tmp_path / "round", NETWORK), commit, "exp/20260101-000000/02-weightless")
    report = verify(folder, env, options(tmp_path / "home", repo))
    assert report.decision == "gain"
    assert report.verdict == "SUSPICIOUS"
    assert not report.ablation_sanity_ok
    assert report.ablation.survives == ["shuffled", "reinitialised"]


@pytest.mark.parametrize(
    ("edits", "is_same"),
    [
        ({"experiment/training.yaml": "epochs: 1"}, True),
        ({MODULE: "# one more line"}, False),
        ({"autoqec/decoders/modules/more.py": "x = 1"}, False),
    ],
    ids=["another file", "a comment", "a module more"],
)
def test_a_commit_that_leaves_the_package_as_it_is_runs_the_installed_one(
    repo: Path, tmp_path: Path, edits: dict[str, str], is_same: bool
) -> None:
    commit = branch(repo, f"exp/20260101-000000/07-{is_same}-{len(str(edits))}", edits)
    exported = at_commit(repo, commit, VerifierDir(tmp_path / "home"))
    assert not exported.is_trusted
    code = exported.or_installed()
    assert (code.commit, code.repo) == (commit, repo)
    assert code.is_trusted == is_same
    assert (code.root == installed_root()) == is_same
    assert code.name == f"commit {commit}{', the same as installed' if is_same else ''}"


def test_code_in_a_config_is_foreign_whatever_its_commit_changes(
    make_round: Maker, env: Environment, repo: Path, tmp_path: Path
) -> None:
    """It is metered beside this package's own code, in a process of its own."""
    name = "exp/20260101-000000/08-config"
    commit = branch(repo, name, {"experiment/training.yaml": "epochs: 2"})
    message = {
        "type": "custom",
        "code": 'def message(x_src, x_dst, e_ij, params):\n    return params["W"](x_src)\n',
        "params_declared": {"W": "Linear(hidden, hidden)"},
    }
    with_code = {**NETWORK, "gnn": {"layers": 1, "hidden_dim": 4, "message_fn": message}}
    found = {}
    for tier, dsl in (("1", NETWORK), ("2", with_code)):
        folder = committed(make_round(tmp_path / tier, dsl), commit, name)
        found[tier] = read_subject(folder, env, strongest(), VerifierDir(tmp_path / "home"), repo)
    assert {tier: subject.code.is_trusted for tier, subject in found.items()} == {"1": True, "2": False}
    assert {tier: subject.holds_code for tier, subject in found.items()} == {"1": False, "2": True}
    assert {subject.code.commit for subject in found.values()} == {commit}


def test_an_export_is_the_commit_s_tree_and_is_made_again_when_touched(repo: Path, tmp_path: Path) -> None:
    home = VerifierDir(tmp_path / "home")
    commit = branch(repo, "exp/20260101-000000/03-export", {MODULE: "MARK = 3"})
    code = at_commit(repo, commit, home)
    path = code.root / MODULE
    assert path.read_text().endswith("MARK = 3\n")
    assert "MARK" not in (repo / MODULE).read_text()
    path.write_text("raise SystemExit")
    (code.root / "autoqec" / "sitecustomize.py").write_text("")
    again = at_commit(repo, commit, home)
    assert (again.root / MODULE).read_text().endswith("MARK = 3\n")
    assert not (again.root / "autoqec" / "sitecustomize.py").exists()
    for wrong in ("HEAD", commit[:10], "0" * 40, "--help"):
        with pytest.raises(InputError, match="commit"):
            at_commit(repo, wrong, home)


def test_links_are_left_out_of_an_export(repo: Path, tmp_path: Path) -> None:
    git(repo, "checkout", "--quiet", "-b", "exp/20260101-000000/04-link", "main")
    (repo / "autoqec" / "decoders" / "modules" / "link.py").symlink_to("/etc/passwd")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-m", "link")
    commit = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "--quiet", "main")
    code = at_commit(repo, commit, VerifierDir(tmp_path / "home"))
    assert not (code.root / "autoqec" / "decoders" / "modules" / "link.py").exists()


def test_no_program_of_the_repository_is_started_by_an_export(repo: Path, tmp_path: Path) -> None:
    """Attributes of the commit, in scope, ask for a filter that the repository's configuration defines."""
    marker = tmp_path / "started"
    attributes = "autoqec/decoders/modules/.gitattributes"
    commit = branch(
        repo,
        "exp/20260101-000000/07-filter",
        {MODULE: "MARK = 7", attributes: "*.py filter=evil\nbp.py export-ignore"},
    )
    assert outside(changed_paths(Git(repo, trusted=False), commit, "main")) == []
    for act in ("smudge", "clean"):
        git(repo, "config", f"filter.evil.{act}", f"touch {marker}; cat")
    try:
        code = at_commit(repo, commit, VerifierDir(tmp_path / "home"))
    finally:
        git(repo, "config", "--remove-section", "filter.evil")
    assert not marker.exists()
    assert (code.root / MODULE).read_text().endswith("MARK = 7\n")
    shown = git(repo, "ls-tree", "-r", "--name-only", commit, "autoqec/").splitlines()
    exported = [path.relative_to(code.root).as_posix() for path in code.root.rglob("*") if path.is_file()]
    assert sorted(exported) == sorted(shown)


def test_what_a_pointer_says_of_its_repository_may_be_nonsense(
    make_round: Maker, env: Environment, repo: Path, tmp_path: Path
) -> None:
    folder = make_round(tmp_path / "round_1", NETWORK)
    claims = {"commit_sha": "a" * 40, "branch": " \n ", "provenance": {"repo_root_resolved": "/\0"}}
    (folder / "round_1_pointer.json").write_text(json.dumps(claims))
    with pytest.raises(InputError, match="--repo"):
        verify(folder, env, VerifyOptions(home=tmp_path / "home", workers=1))


def test_the_repository_that_autoqec_keeps_in_the_working_directory_is_found(
    make_round: Maker, env: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the pointer's word for it; the same word for any other folder is not taken."""
    monkeypatch.chdir(tmp_path)
    folder = make_round(tmp_path / "round_1", NETWORK)
    for place, said in (
        (".autoqec/experiments/1", "is not in the repository"),
        ("elsewhere/1", "is not that of"),
    ):
        repository = tmp_path / place
        repository.mkdir(parents=True)
        git(repository, "init", "--quiet")
        claims = {"commit_sha": "a" * 40, "provenance": {"repo_root_resolved": str(repository)}}
        (folder / "round_1_pointer.json").write_text(json.dumps(claims))
        with pytest.raises(InputError, match=said):
            verify(folder, env, VerifyOptions(home=tmp_path / "home", workers=1))


def test_a_branch_full_of_data_is_refused(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = branch(repo, "exp/20260101-000000/08-large", {MODULE: "MARK = 8"})
    monkeypatch.setattr("autoqec.eval.model_code._MAX_BYTES", 10_000)
    with pytest.raises(InputError, match="MiB"):
        at_commit(repo, commit, VerifierDir(tmp_path / "home"))


def test_a_base_must_tell_what_the_commit_changed(repo: Path, tmp_path: Path) -> None:
    """In the branch's own checkout HEAD is the branch: nothing would seem to be changed."""
    name = "exp/20260101-000000/09-base"
    commit = branch(repo, name, {"autoqec/eval/verdict.py": "x = 1"})
    code = at_commit(repo, commit, VerifierDir(tmp_path / "home"))
    check_base(code, "main")
    for base, word in (
        (name, "contains"),
        (commit, "contains"),
        ("nowhere", "not a commit"),
        ("--all", "not a commit"),
    ):
        with pytest.raises(InputError, match=word):
            check_base(code, base)


def test_the_repository_of_a_round_is_only_read(repo: Path) -> None:
    strangers = Git(repo, trusted=False)
    before = strangers.refs("refs/")
    with pytest.raises(AutoQECError, match="only read"):
        strangers.create_ref("refs/heads/mine", strangers.resolve("main") or "")
    assert strangers.refs("refs/") == before
    assert not (repo / ".git" / "autoqec.lock").exists()


def test_a_branch_that_edits_the_evaluator_is_out_of_scope(repo: Path) -> None:
    edits = {"autoqec/eval/verdict.py": "x = 1", MODULE: "y = 2", "experiment/training.yaml": "epochs: 1"}
    commit = branch(repo, "exp/20260101-000000/05-evaluator", edits)
    changed = changed_paths(Git(repo, trusted=False), commit, "main")
    assert sorted(changed) == sorted(edits)
    assert outside(changed) == ["autoqec/eval/verdict.py"]


def test_rewritten_history_breaks_the_guard(repo: Path, tmp_path: Path) -> None:
    name = "exp/20260101-000000/06-rewritten"
    commit = branch(repo, name, {MODULE: "z = 3"})
    code = at_commit(repo, commit, VerifierDir(tmp_path / "home"))

    def judged(**changes: Any) -> bool | None:
        from types import SimpleNamespace

        subject = SimpleNamespace(code=code, branch=name)
        verification = SimpleNamespace(subject=subject, options=SimpleNamespace(base="main", **changes))
        return code_scope.judge(verification, ()).ok  # type: ignore[arg-type]

    assert judged()
    git(repo, "branch", "--force", name, "main")
    assert judged() is False
