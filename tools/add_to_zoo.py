"""Puts a trained round into the zoo, or writes an entry of it anew: files, card and hashes.

    python tools/add_to_zoo.py runs/r1 surface_d5_depol/my_find --made-by 'autoqec run-round ...' --seed 0 --device 'one H200'

A copy of an entry (`autoqec zoo get`), say with the report of `autoqec verify`, has its provenance: options replace parts of it. Paths of the machine
are left out of what is copied. A round whose branch edits modules has code of its own, and is refused.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from autoqec.errors import AutoQECError, InputError
from autoqec.eval.markdown import render
from autoqec.eval.report import as_json
from autoqec.eval.schema import VerifyReport
from autoqec.finds.predecoder import load_predecoder
from autoqec.finds.zoo import Measured, Provenance, ZooEntry, zoo_entry
from autoqec.io import atomic
from autoqec.io.hashing import sha256_file
from autoqec.io.removal import remove_tree
from autoqec.io.validate import validate_model
from autoqec.layout import EntryDir, RoundDir, zoo_folder
from autoqec.report.card import entry_card

_NAME = re.compile(r"[a-z0-9_]{1,60}/[a-z0-9_]{1,60}", re.ASCII)
_ELSEWHERE = ("round_attempt_id", "reconcile_id", "branch", "commit_sha", "fork_from", "fork_from_canonical")
"""Of a round's branch, which the zoo does not hold; the provenance names it."""


def add(round_dir: Path, name: str, provenance: Provenance) -> ZooEntry:
    """The entry, written and read back. An entry of that name is replaced."""
    if _NAME.fullmatch(name) is None:
        raise InputError(
            f"{name!r} is not the name of an entry", where="NAME", hint="write it as surface_d5_depol/my_find"
        )
    find = load_predecoder(round_dir)
    if find.code is not None:
        raise InputError("has modules of its own branch", where=str(round_dir), hint="the zoo holds none")
    if find.env.spec.name != name.partition("/")[0]:
        raise InputError(
            f"was trained on {find.env.spec.name}", where=str(round_dir), hint="name the entry so"
        )
    files, entry = RoundDir(round_dir), EntryDir(zoo_folder() / name)
    copied = {path.name: path.read_bytes() for path in (files.config, files.checkpoint, files.weights)}
    metrics, report = _metrics(files), _report(files)
    measured = validate_model(metrics, Measured, where=str(files.metrics))
    remove_tree(entry.path)
    entry.path.mkdir(parents=True)
    for file, data in copied.items():
        atomic.write_bytes(entry.path / file, data)
    atomic.write_text(entry.metrics, json.dumps(metrics, indent=2, allow_nan=False) + "\n")
    if report is not None:
        atomic.write_text(entry.report, as_json(report))
        atomic.write_text(entry.report_text, render(report))
    made = ZooEntry(name, entry.path, provenance, measured, report)
    atomic.write_text(entry.card, entry_card(made))
    hashes = {path.name: sha256_file(path) for path in sorted(entry.path.iterdir())}
    named = provenance.model_copy(update={"files": hashes})
    atomic.write_text(entry.provenance, named.model_dump_json(indent=2) + "\n")
    return zoo_entry(name)


def _metrics(files: RoundDir) -> dict[str, Any]:
    metrics: dict[str, Any] = json.loads(files.metrics.read_text(encoding="utf-8"))
    return {
        **{key: value for key, value in metrics.items() if key not in _ELSEWHERE},
        "checkpoint_path": files.checkpoint.name,
        "training_log_path": None,
    }


def _report(files: RoundDir) -> VerifyReport | None:
    if not files.report.is_file():
        return None
    data = json.loads(files.report.read_text(encoding="utf-8"))
    report = validate_model(data, VerifyReport, where=str(files.report))
    return report.model_copy(update={"bundle_path": None, "branch": None, "commit_sha": None})


def _provenance(given: argparse.Namespace) -> Provenance:
    path = EntryDir(given.round_dir).provenance
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"files": {}}
    told = {name: value for name, value in vars(given).items() if name in Provenance.model_fields and value}
    return validate_model(known | told, Provenance, where=str(path))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("round_dir", type=Path)
    parser.add_argument("name", help="ENV/NAME")
    repeatable: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument(
        "--made-by", dest="commands", help="a command of its training, in order", **repeatable
    )
    parser.add_argument("--seed", dest="seeds", type=int, help="of each command", **repeatable)
    parser.add_argument("--device", dest="devices", help="of each command", **repeatable)
    for word in ("run-id", "branch", "commit", "notes"):
        parser.add_argument(f"--{word}")
    given = parser.parse_args()
    try:
        entry = add(given.round_dir, given.name, _provenance(given))
    except AutoQECError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(
        f"{entry.name}: {entry.verdict}, {sum(path.stat().st_size for path in entry.path.iterdir()):,} bytes"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
