"""What shares one plan of confirmations: a run, by its identity and base commit, or a round that stands alone.

Neither is a folder's name: a run that is copied, linked or renamed is the same run, and its budget is what is left of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoqec.errors import InputError
from autoqec.io.hashing import sha256_json
from autoqec.io.strict_yaml import parse_json
from autoqec.io.untrusted_file import read_regular
from autoqec.layout import RunDir, is_run_id, is_stamp

_MAX_ABOUT = 1 << 20
_RUN, _ROUND = "run", "round"


def run_family(round_dir: Path, branch: str | None = None) -> str | None:
    """The family of a round that belongs to a run; None for one that stands alone.

    The branch of the round's commit says which run it is of; without one, the run's own file beside it, or the folder's name
    if that is a time.
    """
    folder = round_dir.resolve().parent
    about = _about(folder)
    kind, _, rest = (branch or "").partition("/")
    of_branch = rest.partition("/")[0]
    named = of_branch if is_stamp(of_branch) or (kind == "exp" and is_run_id(of_branch)) else None
    recorded = about.get("run_id")
    run_id = named or recorded or (folder.name if is_stamp(folder.name) else None)
    if not isinstance(run_id, str) or not is_run_id(run_id):
        return None
    base = about.get("base_commit") if recorded == run_id else None
    return " ".join([_RUN, run_id, *([base] if isinstance(base, str) else [])])


def lone_family(env_hash: str, dsl: Mapping[str, Any], seed: int | None) -> str:
    """A round that stands alone: the same config, trained on the same environment with the same seed, is the same round."""
    return f"{_ROUND} {sha256_json([env_hash, dict(dsl), seed])}"


def is_lone(family: object) -> bool:
    return isinstance(family, str) and family.startswith(f"{_ROUND} ")


def shared(one: object, other: object) -> bool:
    """Whether two families draw on one plan. A run whose base is not known shares with all of its identity; families of
    older ledgers are the folders of runs."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    if one == other:
        return True
    first, second = _parts(one), _parts(other)
    if first is None or second is None or first[0] != second[0]:
        return False
    return None in (first[1], second[1]) or first[1] == second[1]


def _parts(family: str) -> tuple[str, str | None] | None:
    """Identity and base commit of a run's family."""
    words = family.split(" ")
    if words[0] == _RUN and len(words) in (2, 3):
        return words[1], words[2] if len(words) == 3 else None
    name = family.rsplit("/", 1)[-1]
    return (name, None) if is_stamp(name) else None


def _about(folder: Path) -> dict[str, Any]:
    path = RunDir(folder).about
    try:
        data = parse_json(read_regular(path, limit=_MAX_ABOUT).decode(), where=str(path))
    except (InputError, UnicodeDecodeError):
        return {}
    return data if isinstance(data, dict) else {}
