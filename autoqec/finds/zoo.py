"""The zoo: predecoders that come with the package. Each is the folder of a round, with its card and where it comes from.

An entry is believed as far as its hashes agree. Its report is that of another machine's verifier: `autoqec zoo verify` measures again.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from autoqec.errors import InputError
from autoqec.eval.schema import Headline, VerifyReport
from autoqec.io.closest import did_you_mean
from autoqec.io.hashing import sha256_bytes
from autoqec.io.strict_yaml import parse_json
from autoqec.io.untrusted_file import decoded, read_regular
from autoqec.io.validate import validate_model
from autoqec.layout import ZOO, EntryDir, in_runs, zoo_folder

NOT_VERIFIED = "not verified"
_LARGEST = 20 << 20
_DAMAGED = "install AutoQEC again, or restore the folder from its repository"

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Provenance(BaseModel):
    """Where an entry comes from.

    run_id, branch, commit: of the round that it was, None for one that stood alone. commands: what trained it, in order. seeds: of each
    command. devices: what each ran on. files: SHA-256 of every other file of the entry.
    """

    model_config = ConfigDict(extra="forbid")

    run_id: str | None = None
    branch: str | None = None
    commit: str | None = None
    commands: list[str] = Field(min_length=1)
    seeds: list[int]
    devices: list[str]
    notes: str | None = None
    files: dict[str, Sha256]


class Measured(BaseModel):
    """What is read of the `metrics.json` of an entry. Figures of a validation: they chose nothing, and verify nothing."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    flops_per_syndrome: int
    n_params: int
    checkpoint_sha256: Sha256
    reference_p: float
    per_p: list[dict[str, Any]] = Field(default_factory=list)
    baselines: list[dict[str, Any]] | None = None


@dataclass(frozen=True)
class ZooEntry:
    """A predecoder of the zoo. name: ENV/NAME; with `zoo:` in front it stands for a round's folder everywhere."""

    name: str
    path: Path
    provenance: Provenance
    metrics: Measured
    report: VerifyReport | None

    @property
    def env(self) -> str:
        """Name of the environment that it was trained on."""
        return self.name.partition("/")[0]

    @property
    def is_verified(self) -> bool:
        """Whether a confirmation on fresh shots says so."""
        found = self.report
        return found is not None and found.verdict == "VERIFIED" and found.bundle_kind == "confirm"

    @property
    def headline(self) -> Headline | None:
        """The verified figures; None of an entry that is not verified."""
        return self.report.headline if self.report is not None and self.is_verified else None

    @property
    def flops_per_syndrome(self) -> float:
        """As the verifier counted it; of an entry that is not verified, as its round did."""
        cost = self.report.cost if self.report is not None and self.is_verified else None
        counted = None if cost is None else cost.flops_per_syndrome
        return self.metrics.flops_per_syndrome if counted is None else counted

    @property
    def verdict(self) -> str:
        """VERIFIED, or that it is not, and what a report says instead."""
        if self.is_verified:
            return "VERIFIED"
        return NOT_VERIFIED if self.report is None else f"{NOT_VERIFIED} ({self.report.verdict})"

    def to_dict(self) -> dict[str, Any]:
        """What a table of entries shows."""
        head = self.headline
        return {
            "env": self.env,
            "name": self.name.partition("/")[2],
            "flops_per_syndrome": self.flops_per_syndrome,
            "n_params": self.metrics.n_params,
            "checkpoint_sha256": self.metrics.checkpoint_sha256,
            "verdict": self.verdict,
            "gain": None if head is None else head.delta,
            "gain_ci": None if head is None or head.delta_ci is None else list(head.delta_ci),
            "ratio": None if head is None else head.ratio,
            "shots": None if head is None else head.shots,
        }


def zoo_names() -> list[str]:
    """ENV/NAME of every entry."""
    root = zoo_folder()
    found = (EntryDir(path) for path in root.glob("*/*"))
    return sorted(each.path.relative_to(root).as_posix() for each in found if each.provenance.is_file())


def zoo_entries() -> list[ZooEntry]:
    """The predecoders that come with the package. `load_predecoder("zoo:ENV/NAME")` loads one.

    Examples:
        >>> import autoqec
        >>> [entry.verdict for entry in autoqec.zoo_entries() if entry.name == "no_such/entry"]
        []
    """
    return [zoo_entry(name) for name in zoo_names()]


def zoo_entry(name: str) -> ZooEntry:
    """An entry by ENV/NAME, with or without `zoo:`; its files are those that its provenance, metrics and report name.

    Raises:
        InputError: there is none, or it is damaged.
    """
    name = name.removeprefix(ZOO)
    known = zoo_names()
    if name not in known:
        near = did_you_mean(name, known)
        listed = "autoqec zoo list lists the entries"
        raise InputError(
            f"{name[:120]!r} is not in the zoo",
            where="zoo",
            hint=listed if near is None else f"{near} {listed}",
        )
    try:
        return _checked(name)
    except InputError as error:
        raise InputError(
            f"the entry is damaged: {error.where}: {error.what}", where=f"{ZOO}{name}", hint=_DAMAGED
        ) from None


def _checked(name: str) -> ZooEntry:
    files = EntryDir(zoo_folder() / name)
    provenance = validate_model(_json(files.provenance), Provenance, where=files.provenance.name)
    there = {path.name: path for path in files.path.iterdir() if path != files.provenance}
    for missing in sorted(provenance.files.keys() - there.keys()):
        raise InputError("is missing", where=missing)
    for strange in sorted(there.keys() - provenance.files.keys()):
        raise InputError("is a file that the provenance does not name", where=strange)
    hashes = {each: sha256_bytes(_bytes(path)) for each, path in sorted(there.items())}
    for each, found in hashes.items():
        if found != provenance.files[each]:
            raise InputError("is not the file that the provenance names", where=each)
    for needed in (files.config, files.checkpoint, files.weights, files.metrics, files.card):
        if needed.name not in hashes:
            raise InputError("is missing", where=needed.name)
    metrics = validate_model(_json(files.metrics), Measured, where=files.metrics.name)
    report = None
    if files.report.name in hashes:
        report = validate_model(_json(files.report), VerifyReport, where=files.report.name)
    if report is not None and report.env_name != name.partition("/")[0]:
        raise InputError(f"is about {str(report.env_name)[:80]!r}", where=files.report.name)
    for where, stated in (
        (files.metrics.name, metrics.checkpoint_sha256),
        *([] if report is None else [(files.report.name, report.checkpoint_sha256)]),
    ):
        if stated != hashes[files.checkpoint.name]:
            raise InputError(f"is about another checkpoint: {str(stated)[:12]}", where=where)
    return ZooEntry(name, files.path, provenance, metrics, report)


def _bytes(path: Path) -> bytes:
    return read_regular(path, limit=_LARGEST, where=path.name)


def _json(path: Path) -> object:
    return parse_json(decoded(_bytes(path), where=path.name), where=path.name)


def is_zoo_name(given: str | Path) -> bool:
    return str(given).startswith(ZOO)


def meant_the_zoo(given: str | Path) -> str | None:
    """A question, where a path that is not there is the name of an entry without `zoo:`."""
    return f"did you mean '{ZOO}{given}'?" if str(given) in zoo_names() else None


def round_folder(given: str | Path, workspace: str | Path) -> Path:
    """What a user calls a round: `zoo:ENV/NAME`; a path; or the id of a run and what follows it, as in ID/round_3."""
    return zoo_entry(str(given)).path if is_zoo_name(given) else in_runs(given, workspace)


def is_in_zoo(folder: Path) -> bool:
    return folder.resolve().is_relative_to(zoo_folder().resolve())


def copy_entry(folder: Path, target: Path) -> None:
    """The files of an entry in `target`, which is made, and has no others."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError("is there, and not empty", where=str(target), hint="give a new folder")
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.iterdir()):
        shutil.copyfile(path, target / path.name)


def split_list(text: str, separator: str) -> list[str]:
    """The parts of a list as in PATH; the colon of `zoo:` separates nothing."""
    own = ZOO.removesuffix(":")
    return [part for part in re.split(rf"(?<!^{own})(?<![{separator}=]{own}){separator}", text) if part]
