"""The rounds of a package: do history, branches, pointers and artifacts tell the same story?"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoqec.decoders.checkpoint_format import MAX_BYTES
from autoqec.decoders.dsl_schema import canonical_hash
from autoqec.errors import AutoQECError, InputError
from autoqec.eval.front_schema import SHA_PATTERN
from autoqec.eval.schema import VerifyReport
from autoqec.eval.scope import MODULES
from autoqec.io.git import Git
from autoqec.io.hashing import sha256_bytes, sha256_json
from autoqec.io.jsonl import Row
from autoqec.io.strict_yaml import parse_json
from autoqec.io.untrusted_file import read_regular
from autoqec.io.validate import validate_model
from autoqec.layout import ExperimentDir, RoundDir
from autoqec.runner.schema import RoundMetrics
from autoqec.runs.documents import committed_config
from autoqec.runs.history import FOLLOW_UPS, HistoryRow
from autoqec.runs.names import RoundName, parse_branch
from autoqec.runs.package_open import Package
from autoqec.runs.pointer import Pointer, read_pointer
from autoqec.search.proposal import BASELINE

_MAX_FILE = 8 << 20
_MEASURED = (
    "status", "ler_plain_classical", "ler_predecoder", "delta_ler", "delta_ler_ci_low", "delta_ler_ci_high",
    "flops_per_syndrome", "n_params", "reference_p", "target",
)  # fmt: skip


@dataclass
class PackagedRound:
    """A round with a branch, as the package tells it. trained: stands for config and code, counted anew."""

    row: Row
    problems: list[str] = field(default_factory=list)
    report: VerifyReport | None = None
    trained: str | None = None

    @property
    def number(self) -> int:
        return int(self.row["round"])

    @property
    def claims_verified(self) -> bool:
        verdict = self.report.verdict if self.report is not None else None
        return "VERIFIED" in (self.row["verdict"], verdict)


def history_of(package: Package) -> tuple[list[Row], list[str]]:
    """The rows that follow the rules, and what is wrong with the others or with all of them together."""
    try:
        rows = package.run.history.rows()
    except InputError as error:
        return [], [error.what]
    problems, good = [], []
    for number, row in enumerate(rows, start=1):
        try:
            validate_model(row, HistoryRow, where=f"row {number}")
            _check_names(row, package.manifest.run_id)
            good.append(row)
        except AutoQECError as error:
            problems.append(f"row {number} of the history: {error.what}")
    rounds = [row for row in good if row["status"] not in FOLLOW_UPS]
    for name in ("round", "branch", "commit_sha", "round_attempt_id"):
        times = Counter(row[name] for row in rounds if row[name] is not None)
        problems += [f"{name} {value} is in the history {n} times" for value, n in times.items() if n > 1]
    if (array := package.run.files.history_array).exists() and _json(array) != _raw(package):
        problems.append("history.json is not history.jsonl")
    known = {BASELINE, *(row["branch"] for row in rounds)}
    for row in rounds:
        fork = row["fork_from"]
        parents = fork if isinstance(fork, list) else [fork] if fork is not None else []
        problems += [
            f"round {row['round']} comes from {name}, which is not there" for name in {*parents} - known
        ]
    return good, problems


def _check_names(row: Row, run_id: str) -> None:
    branch, number = row["branch"], row["round"]
    if row["status"] in FOLLOW_UPS:
        if branch is not None and not str(branch).startswith((f"exp/{run_id}/", f"quarantine/{run_id}/")):
            raise InputError(f"{str(branch)[:120]!a} is a branch of another run", where="branch")
        return
    if number is None:
        raise InputError("has no number", where="round")
    if branch is None:
        if row["verdict"] == "VERIFIED":
            raise InputError("is VERIFIED and has no branch", where="branch")
        return
    if not re.fullmatch(SHA_PATTERN, str(row["commit_sha"])):
        raise InputError(f"{str(row['commit_sha'])[:80]!a} is not a commit", where="commit_sha")
    name = parse_branch(branch)
    if (name.run_id, name.round) != (run_id, number):
        raise InputError(f"{branch} is not of round {number} of run {run_id}", where="branch")
    if row["verdict"] == "VERIFIED" and row["status"] != "ok":
        raise InputError(f"is VERIFIED with status {row['status']}", where="verdict")


def _raw(package: Package) -> Any:
    text = read_regular(package.run.files.history, limit=1 << 30).decode(errors="replace")
    return [json.loads(line) for line in text.splitlines()]


def _json(path: Path) -> Any:
    try:
        return json.loads(read_regular(path, limit=1 << 30))
    except (ValueError, RecursionError, InputError):
        return None


def read_round(package: Package, row: Row) -> PackagedRound:
    """A round with all that is wrong with its own files."""
    found = PackagedRound(row)
    name, files = parse_branch(row["branch"]), package.run.files.round(row["round"])
    try:
        pointer = _pointer(package, name, row, files)
        dsl = committed_config(package.git, name, pointer.commit_sha)
        config = canonical_hash(dsl)
        found.trained = sha256_json([config, package.git.resolve(f"{pointer.commit_sha}:{MODULES}")])
        found.problems += _provenance(package, name, row, files, pointer, config)
        found.problems += _started(files, row, dsl.training.init_from)
        found.problems += _measured(files, row)
        if files.report.exists():
            found.report = _load(files.report, VerifyReport)
    except AutoQECError as error:
        found.problems.append(error.what)
    verdict = found.report.verdict if found.report is not None else None
    if "VERIFIED" in (row["verdict"], verdict) and verdict != row["verdict"]:
        found.problems.append(
            f"the history says {row['verdict']}, and the report {verdict or 'is not there'}"
        )
    return found


def stray_reports(package: Package, rounds: list[PackagedRound]) -> list[str]:
    """Reports that say VERIFIED in folders that belong to no round of the history with a branch."""
    known = {one.number for one in rounds}
    problems = []
    for path in sorted(package.files.run.rglob(RoundDir("").report.name)):
        folder = path.parent
        number = folder.name.removeprefix("round_")
        is_own = folder.parent == package.files.run and number.isdecimal() and int(number) in known
        if not is_own or folder != package.run.files.round(int(number)).path:
            problems.append(f"{path.relative_to(package.files.path).as_posix()} belongs to no round")
    return problems


def _load(path: Path, model: Any) -> Any:
    data = read_regular(path, limit=_MAX_FILE)
    return validate_model(parse_json(data.decode(errors="replace"), where=path.name), model, where=path.name)


def _pointer(package: Package, name: RoundName, row: Row, files: RoundDir) -> Pointer:
    """The pointer on the branch, which is the one beside the artifacts."""
    git, tip = package.git, package.manifest.refs.get(f"refs/heads/{name.branch}")
    if tip is None:
        raise InputError("its branch is not in the package")
    commit = row["commit_sha"]
    if git.resolve(commit) != commit or not git.is_ancestor(commit, tip):
        raise InputError(f"commit {commit[:12]} is not on its branch")
    path = ExperimentDir("").record(name.run_id, name.round).pointer.as_posix()
    committed = _small_file(git, tip, path)
    if committed is None or not files.pointer.is_file() or committed != files.pointer.read_bytes():
        raise InputError("the pointer on the branch is not the one beside the artifacts")
    return read_pointer(committed, where=name.branch)


def _small_file(git: Git, commit: str, path: str) -> bytes | None:
    code, size = git.run("cat-file", "-s", f"{commit}:{path}", codes=(0, 128))
    if code == 0 and int(size) > _MAX_FILE:
        raise InputError(f"is larger than {_MAX_FILE >> 20} MiB", where=path)
    return git.file_at(commit, path) if code == 0 else None


def _provenance(
    package: Package, name: RoundName, row: Row, files: RoundDir, pointer: Pointer, config: str
) -> list[str]:
    made, git = pointer.provenance, package.git
    digest = None
    if files.checkpoint.exists():
        digest = sha256_bytes(read_regular(files.checkpoint, limit=MAX_BYTES))
    checks = (
        (pointer.commit_sha == row["commit_sha"], "the pointer names another commit"),
        (pointer.branch == row["branch"], "the pointer names another branch"),
        (pointer.round_attempt_id == row["round_attempt_id"], "the pointer names another attempt"),
        (row["status"] != "ok" or made.checkpoint_sha256 == digest, "the checkpoint is another one"),
        (made.dsl_config_sha256 == config, "the committed config is another one"),
        (made.train_seed == name.train_seed == row["train_seed"], "the training seed is another one"),
        (made.env_yaml_sha256 == package.env_sha256, "it was trained in another environment"),
        (pointer.fork_from == row["fork_from"], "the pointer names other parents"),
        (
            git.is_ancestor(package.manifest.base_commit, row["commit_sha"]),
            "it does not descend from the run's base",
        ),
    )
    return [problem for is_so, problem in checks if not is_so]


def _started(files: RoundDir, row: Row, init_from: str | None) -> list[str]:
    """Without what it started from, nobody could train the round again."""
    if init_from is None or row["status"] != "ok":
        return []
    there = files.initial.exists() and sha256_bytes(read_regular(files.initial, limit=MAX_BYTES)) == init_from
    return [] if there else ["the checkpoint that it started from is not there"]


def _measured(files: RoundDir, row: Row) -> list[str]:
    """A history row repeats what the round measured; the pointer on its branch has the costs as well."""
    if row["status"] != "ok":
        return []
    metrics = _load(files.metrics, RoundMetrics).model_dump(mode="json")
    return [f"metrics.json has another {name}" for name in _MEASURED if metrics[name] != row[name]]
