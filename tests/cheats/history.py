"""Branches and repositories that are not what they seem."""

from __future__ import annotations

from pathlib import Path

from autoqec.eval.model_code import at_commit
from autoqec.eval.scope import changed_paths
from autoqec.io.git import Git
from autoqec.layout import VerifierDir
from cheats import sources
from cheats.corpus import cheat
from cheats.scene import MODULE, NETWORK, SOFT_BP, Outcome, Scene, act, git

_SCOPE = "a branch may change model code only; the trusted side never imports from it"


@cheat(
    "edited evaluator on the branch",
    family="branches that reach too far",
    how="the branch's verdict.py says VERIFIED, whatever is measured",
    defence=_SCOPE,
    expect="FAILED",
    because="code_scope",
)
def _evaluator(scene: Scene) -> Outcome:
    edit = 'def judge(*_, **__):\n    return Judgement("VERIFIED", "of course")\n'
    name, commit = scene.branch({"autoqec/eval/verdict.py": edit})
    return scene.verify(scene.commit_to(scene.round(NETWORK), name, commit))


@cheat(
    "bad priors on the branch",
    family="branches that reach too far",
    how="the branch's noise model gives the baseline priors that mislead it",
    defence=_SCOPE,
    expect="FAILED",
    because="code_scope",
)
def _priors(scene: Scene) -> Outcome:
    edit = "_honest = problem_from_circuit\n\n\ndef problem_from_circuit(*a, **k):\n    raise SystemExit\n"
    name, commit = scene.branch({"autoqec/envs/build.py": edit})
    return scene.verify(scene.commit_to(scene.round(SOFT_BP), name, commit))


@cheat(
    "sitecustomize on the branch",
    family="branches that reach too far",
    how="sitecustomize.py, a .pth file and a shadow of numpy lie in the branch, to run before the verifier does",
    defence=f"{_SCOPE}; the worker is python -I with its code's package alone",
    expect="FAILED",
    because="code_scope",
)
def _sitecustomize(scene: Scene) -> Outcome:
    act_text = f"open({str(scene.marker)!r}, 'w').write('x')"
    edits = {"sitecustomize.py": act_text, "evil.pth": f"import os; {act_text}", "numpy.py": act_text}
    name, commit = scene.branch(edits)
    outcome = scene.verify(scene.commit_to(scene.round(SOFT_BP), name, commit))
    return act(True, "its code ran") if scene.marker.exists() else outcome


@cheat(
    "rewritten history",
    family="branches that reach too far",
    how="after the round, its branch is reset: the recorded commit is no longer on it",
    defence="the branch, where it exists, must contain the recorded commit",
    expect="FAILED",
    because="code_scope",
)
def _rewritten(scene: Scene) -> Outcome:
    name, commit = scene.branch({MODULE: "HARMLESS = 1"})
    git(scene.shared.repo, "branch", "--force", name, "main")
    return scene.verify(scene.commit_to(scene.round(SOFT_BP), name, commit))


@cheat(
    "commit without a common history",
    family="branches that reach too far",
    how="the commit is an orphan: nothing says what it changed",
    defence="the commit must descend from the base, so that its changes can be read",
    expect="FAILED",
    because="code_scope",
)
def _orphan(scene: Scene) -> Outcome:
    repo = scene.shared.repo
    tree = git(repo, "rev-parse", "main^{tree}")
    commit = git(repo, "commit-tree", tree, "-m", "from nowhere")
    return scene.verify(scene.commit_to(scene.round(SOFT_BP), "exp/20260101-000000/01-orphan", commit))


@cheat(
    "replaced commit",
    family="branches that reach too far",
    how="git replace makes an innocent commit read as another one, whose evaluator is edited",
    defence="the verifier's git reads no replacement objects",
    expect="no effect",
    because="the innocent commit",
)
def _replaced(scene: Scene) -> Outcome:
    repo = scene.shared.repo
    innocent_name, innocent = scene.branch({MODULE: "HARMLESS = 2"})
    _, evil = scene.branch({MODULE: sources.SEARCH}, name="exp/20260101-000000/02-evil")
    git(repo, "replace", innocent, evil)
    try:
        code = at_commit(repo, innocent, VerifierDir(scene.home))
        text = (code.root / MODULE).read_text()
    finally:
        git(repo, "replace", "--delete", innocent)
    return act("_Search" in text, f"the innocent commit of {innocent_name} was exported")


@cheat(
    "link in the branch",
    family="branches that reach too far",
    how="a module of the branch is a symbolic link to a file outside",
    defence="links are left out of the export",
    expect="no effect",
    because="left out",
)
def _link(scene: Scene) -> Outcome:

    repo = scene.shared.repo
    git(repo, "checkout", "--quiet", "-b", "exp/20260101-000000/01-link", "main")
    link = repo / "autoqec" / "decoders" / "modules" / "link.py"
    link.symlink_to("/etc/passwd")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-m", "link")
    commit = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "--quiet", "main")
    code = at_commit(repo, commit, VerifierDir(scene.home))
    return act((code.root / "autoqec/decoders/modules/link.py").exists(), "the link was left out")


@cheat(
    "hostile git configuration",
    family="branches that reach too far",
    how="the repository's own configuration names programs for git to start: a monitor, a pager, filters that the commit asks for",
    defence="the verifier's git is told to start none, and stored files are copied out unfiltered",
    expect="no effect",
    because="nothing was started",
)
def _configuration(scene: Scene) -> Outcome:

    script = scene.folder / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {scene.marker}\n")
    script.chmod(0o755)
    repo = scene.shared.repo
    attributes = {"autoqec/decoders/modules/.gitattributes": b"*.py filter=evil diff=evil\n"}
    _, commit = scene.branch({MODULE: "HARMLESS = 3", **attributes})
    names = ("core.fsmonitor", "core.pager", "diff.external", "filter.evil.smudge", "diff.evil.textconv")
    settings = dict.fromkeys(names, str(script))
    for name, value in settings.items():
        git(repo, "config", name, value)
    try:
        at_commit(repo, commit, VerifierDir(scene.home))
        changed_paths(Git(repo, trusted=False), commit, "main")
    finally:
        for name in settings:
            git(repo, "config", "--unset", name)
    return act(scene.marker.exists(), "nothing was started")


@cheat(
    "export changed on disk",
    family="branches that reach too far",
    how="the exported model code in the verifier's home is edited before the next verification",
    defence="an export that is there is compared with the commit byte by byte",
    expect="no effect",
    because="made again",
)
def _export(scene: Scene) -> Outcome:

    _, commit = scene.branch({MODULE: "HARMLESS = 4"})
    home = VerifierDir(scene.home)
    path = Path(at_commit(scene.shared.repo, commit, home).root) / MODULE
    path.write_text(sources.SEARCH)
    at_commit(scene.shared.repo, commit, home)
    return act("_Search" in path.read_text(), "the export was made again")
