"""Names of runs, rounds and branches. What does not fit a pattern never reaches git or the file system."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from autoqec.envs.seeds import derive_seed
from autoqec.errors import InputError
from autoqec.layout import is_run_id, worktree_prefix

_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_BRANCH = re.compile(rf"exp/(?P<run>[^/]+)/(?P<round>(?!0+-)[0-9]{{2,9}})-(?P<slug>{_SLUG.pattern})")


@dataclass(frozen=True)
class RoundName:
    """Round `round` of a run; two rounds of a run never share a number."""

    run_id: str
    round: int
    slug: str

    def __post_init__(self) -> None:
        check_run_id(self.run_id)
        check_slug(self.slug)
        if not 1 <= self.round < 10**9:
            raise InputError(f"{self.round} cannot number a round", where="round", hint="rounds count from 1")

    @property
    def branch(self) -> str:
        return f"exp/{self.run_id}/{self.round:02d}-{self.slug}"

    @property
    def worktree(self) -> str:
        """Name of the folder it is checked out in."""
        return f"{worktree_prefix(self.run_id)}{self.round:02d}-{self.slug}"

    @property
    def train_seed(self) -> int:
        """The seed of the round's training: its own, and one that any JSON reader keeps exactly (53 bits)."""
        return derive_seed("round", self.run_id, self.round) >> 11


def parse_branch(branch: str) -> RoundName:
    """The round of an experiment branch."""
    match = _BRANCH.fullmatch(branch)
    is_named = match is not None and is_run_id(match["run"])
    name = RoundName(match["run"], int(match["round"]), match["slug"]) if match and is_named else None
    if name is None or name.branch != branch:
        raise InputError(
            f"{branch[:120]!r} is not an experiment branch",
            where="branch",
            hint="expected exp/<run_id>/<NN>-<slug>",
        )
    return name


def check_slug(slug: str) -> str:
    if not _SLUG.fullmatch(slug):
        raise InputError(
            f"{slug[:80]!r} cannot name a round",
            where="slug",
            hint="use a-z, 0-9 and dashes, at most 40 characters, not starting with a dash",
        )
    return slug


def check_run_id(run_id: str) -> str:
    if not is_run_id(run_id):
        raise InputError(
            f"{run_id[:80]!r} is not a run id",
            where="run_id",
            hint="use YYYYMMDD-HHMMSS, or at most 40 letters, digits, underscores and single dashes after a letter",
        )
    return run_id


def slug_of(text: str) -> str:
    """A slug that reads like `text`."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word[:40]
        if len(longer) > 40:
            break
        slug = longer
    return slug or "round"


def run_id_at(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y%m%d-%H%M%S")
