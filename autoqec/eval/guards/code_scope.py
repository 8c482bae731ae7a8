"""Code scope: the round's commit exists, is on its branch, and changes model code only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autoqec.errors import InputError
from autoqec.eval.guards import Guard
from autoqec.eval.schema import GuardResult
from autoqec.eval.scope import changed_paths, outside
from autoqec.eval.verification_state import VerificationState
from autoqec.io.git import GitError

NAME = "code_scope"


def judge(verification: VerificationState, _answers: Sequence[Any]) -> GuardResult:
    code = verification.subject.code
    if code.commit is None or (git := code.git) is None:
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
        changed = changed_paths(git, code.commit, verification.options.base)
    except (InputError, GitError) as error:
        wrong.append(error.what)
    forbidden = outside(changed)
    if forbidden:
        wrong.append(f"the branch changes {', '.join(forbidden[:5])}, which are not model code")
    branch = verification.subject.branch or ""
    tip = git.branch(branch)
    if tip is None:
        wrong.append(f"branch {branch} is not in the repository")
    elif git.merge_base(code.commit, tip) != code.commit:
        wrong.append(f"branch {branch} no longer contains the commit: its history was rewritten")
    text = "; ".join(wrong) or f"commit {code.commit[:12]} changes {len(changed)} paths, all of them in scope"
    return GuardResult(name=NAME, ok=not wrong, severity="breaks", number=float(len(forbidden)), text=text)


GUARD = Guard(NAME, judge)
