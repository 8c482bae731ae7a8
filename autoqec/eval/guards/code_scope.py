"""Code scope: the round's commit exists, is on its branch, and changes model code only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoqec.errors import InputError
from autoqec.eval.guards import Guard
from autoqec.eval.model_code import changed_paths, git, outside_scope
from autoqec.eval.schema import GuardResult
from autoqec.eval.verification_state import Case

NAME = "code_scope"


def judge(case: Case, _answers: Sequence[Any]) -> GuardResult:
    code = case.subject.code
    if code.commit is None or code.repo is None:
        return GuardResult(
            name=NAME,
            ok=None,
            severity="breaks",
            number=None,
            text="no commit: the installed package's code ran",
        )
    wrong: list[str] = []
    changed: list[str] = []
    try:
        changed = changed_paths(code.repo, code.commit, case.options.base)
        if outside := outside_scope(changed):
            wrong.append(f"the branch changes {', '.join(outside[:5])}, which are no model code")
    except InputError as error:
        wrong.append(f"the commit has no history in common with {case.options.base}: {error.what}")
    branch = case.subject.branch or ""
    tip = git(code.repo, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False)
    if tip and git(code.repo, "merge-base", code.commit, tip, check=False) != code.commit:
        wrong.append(f"branch {branch} no longer contains the commit: its history was rewritten")
    text = "; ".join(wrong) or f"commit {code.commit[:12]} changes {len(changed)} paths, all of them in scope"
    return GuardResult(
        name=NAME, ok=not wrong, severity="breaks", number=float(len(outside_scope(changed))), text=text
    )


GUARD = Guard(NAME, judge)
