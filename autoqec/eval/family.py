"""What shares one plan of confirmations: a run, by its identity, or a round that stands alone.

A folder's name is not an identity: a run that is copied, linked or renamed is the same run, and its budget is what is left of it. Whoever gives a run
another identity has begun a new one, as anybody may: alpha bounds the false gains of one run.
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
_HASH = 64
_RUN, _ROUND = "run", "round"


def run_family(round_dir: Path, branch: str | None = None, env_hash: str | None = None) -> str | None:
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
    # A time is unique. A name may be used again, for another environment; nothing that the run's own files say makes two of one.
    scope = [env_hash] if env_hash is not None and not is_stamp(run_id) else []
    return " ".join([_RUN, run_id, *scope])


def lone_family(env_hash: str, dsl: Mapping[str, Any], seed: int | None) -> str:
    """A round that stands alone: the same config, trained on the same environment with the same seed, is the same round."""
    return f"{_ROUND} {sha256_json([env_hash, dict(dsl), seed])}"


def is_lone(family: object) -> bool:
    return isinstance(family, str) and family.startswith(f"{_ROUND} ")


def shared(one: object, other: object) -> bool:
    """Whether two families draw on one plan: those of one run's identity and, where that is a name, of one environment. Older ledgers have
    the base commit in its place, or the folders of runs: they share with all of their identity."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    if one == other:
        return True
    first, second = _parts(one), _parts(other)
    if first is None or second is None or first[0] != second[0]:
        return False
    return None in (first[1], second[1]) or first[1] == second[1]


def _parts(family: str) -> tuple[str, str | None] | None:
    """Identity of a run's family, and its environment where that counts."""
    kind, _, rest = family.partition(" ")
    if kind == _RUN:
        run_id, _, scope = rest.partition(" ")
        return run_id, scope if len(scope) == _HASH and not is_stamp(run_id) else None
    name = family.rsplit("/", 1)[-1]
    return (name, None) if is_stamp(name) else None


def _about(folder: Path) -> dict[str, Any]:
    path = RunDir(folder).about
    try:
        data = parse_json(read_regular(path, limit=_MAX_ABOUT).decode(), where=str(path))
    except (InputError, UnicodeDecodeError):
        return {}
    return data if isinstance(data, dict) else {}
