"""The report of a round that was verified before, if it is the verifier's own.

Whoever can write in the round's folder can write a report there, or bring one that another plan of confirmations paid for.
"""

from __future__ import annotations

from pathlib import Path

from autoqec.decoders.checkpoint_format import MAX_BYTES
from autoqec.errors import InputError
from autoqec.eval.bundles import is_sealed
from autoqec.eval.family import run_family
from autoqec.eval.ledger import Ledger
from autoqec.eval.schema import VerifyReport
from autoqec.io.hashing import sha256_bytes
from autoqec.io.strict_yaml import parse_json
from autoqec.io.untrusted_file import read_regular
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir, VerifierDir

_MAX_REPORT = 8 << 20


def written_report(round_dir: str | Path, *, home: Path | None = None) -> VerifyReport:
    """The report in `round_dir`, if the verifier at `home` wrote it: to the byte, on the checkpoint that lies there, in a
    confirmation that its ledger opened before, and on shots that are in its archive.

    Raises:
        InputError: there is no such report.
    """
    files, verifier = RoundDir(round_dir), VerifierDir(home)
    data = read_regular(files.report, limit=_MAX_REPORT, hint="verify the round first")
    checkpoint = sha256_bytes(read_regular(files.checkpoint, limit=MAX_BYTES))
    where, hint = str(files.report), "verify the round again, where it lies"
    row = Ledger(verifier).wrote(sha256_bytes(data), checkpoint, run_family(files.path))
    if row is None:
        raise InputError(
            "is not as this verifier wrote it, for this run and its checkpoint", where=where, hint=hint
        )
    for name in ("bundle", "estimate"):
        if row.get(name) is not None and not is_sealed(verifier.bundles, str(row[name])):
            raise InputError(
                f"the shots of its {name} are not in the verifier's archive: {str(row[name])[:16]}",
                where=where,
                hint=hint,
            )
    return validate_model(parse_json(data.decode(), where=where), VerifyReport, where=where)
