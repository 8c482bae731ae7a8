"""The report of a round that was verified before, if it is the verifier's own.

Whoever can write in the round's folder can write a report there, or bring one that another plan of confirmations paid for.
"""

from __future__ import annotations

from pathlib import Path

from autoqec.decoders.checkpoint_format import MAX_BYTES
from autoqec.errors import InputError
from autoqec.eval.ledger import Ledger, family_of
from autoqec.eval.schema import VerifyReport
from autoqec.io.hashing import sha256_bytes
from autoqec.io.strict_yaml import parse_json
from autoqec.io.untrusted_file import read_regular
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir, VerifierDir

_MAX_REPORT = 8 << 20


def written_report(round_dir: str | Path, *, home: Path | None = None) -> VerifyReport:
    """The report in `round_dir`, which the ledger of the verifier at `home` knows to the byte, on the checkpoint that lies there.

    Raises:
        InputError: there is no such report.
    """
    files = RoundDir(round_dir)
    data = read_regular(files.report, limit=_MAX_REPORT, hint="verify the round first")
    if not Ledger(VerifierDir(home)).wrote(sha256_bytes(data), family_of(files.path)):
        raise InputError(
            "is not as this verifier wrote it, for this run",
            where=str(files.report),
            hint="verify the round again, where it lies",
        )
    report = validate_model(
        parse_json(data.decode(), where=str(files.report)), VerifyReport, where=str(files.report)
    )
    if sha256_bytes(read_regular(files.checkpoint, limit=MAX_BYTES)) != report.checkpoint_sha256:
        raise InputError(
            "is not the checkpoint that was verified",
            where=str(files.checkpoint),
            hint="verify the round again",
        )
    return report
