"""Checking a package on another machine: every hash, every commit, and the verification again, without network or keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from autoqec.decoders.dsl_schema import canonical_hash
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.errors import AutoQECError, InputError
from autoqec.eval.schema import VerifyReport
from autoqec.eval.verify import VerifyOptions, verify
from autoqec.io.git import Git, GitError
from autoqec.io.hashing import sha256_file
from autoqec.io.jsonl import Row
from autoqec.io.validate import load_model
from autoqec.layout import ExperimentDir, PackageDir, RunDir
from autoqec.runs.documents import committed_config
from autoqec.runs.history import HistoryStore
from autoqec.runs.names import parse_branch
from autoqec.runs.package import FORMAT, Manifest
from autoqec.runs.pointer import read_pointer
from autoqec.runs.tar_archive import unpack


@dataclass
class RoundCheck:
    """recorded, now: the verdict in the package and that of this machine; None where there is none."""

    round: int
    branch: str
    problems: list[str]
    recorded: str | None = None
    now: str | None = None
    note: str | None = None

    @property
    def is_good(self) -> bool:
        return not self.problems and (self.recorded != "VERIFIED" or self.now in (None, "VERIFIED"))


@dataclass
class PackageCheck:
    run_id: str
    files: int
    rounds: list[RoundCheck] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return all(check.is_good for check in self.rounds)


def check_package(
    archive: Path, *, evaluate: bool = True, every_round: bool = False, options: VerifyOptions | None = None
) -> PackageCheck:
    """Checks hashes and provenance of all rounds; verifies anew those that the package calls VERIFIED, or every one.

    Raises:
        InputError: the archive is damaged, or holds something that leads out of its folder.
    """
    with opened(archive) as (package, manifest, git):
        run = RunDir(package.run)
        env = _environment(package, manifest)
        result = PackageCheck(manifest.run_id, len(manifest.files))
        for row in HistoryStore(run).rows():
            if None in (row["commit_sha"], row["branch"]) or row["status"] == "orphaned_branch":
                continue
            check = RoundCheck(row["round"], row["branch"], _problems(run, git, row, manifest))
            report = run.round(row["round"]).report
            check.recorded = _verdict(report)
            wanted = row["status"] == "ok" and (every_round or check.recorded == "VERIFIED")
            if evaluate and wanted and not check.problems:
                _verify_again(check, run, env, git, manifest, options or VerifyOptions())
            result.rounds.append(check)
        return result


@contextmanager
def opened(archive: Path) -> Iterator[tuple[PackageDir, Manifest, Git]]:
    """The package in a folder for the time being, all its files as the manifest says, its branches in a repository."""
    with TemporaryDirectory(prefix="autoqec-package-") as scratch:
        package = PackageDir(Path(scratch) / "package")
        package.path.mkdir()
        unpack(archive, package.path)
        if not package.manifest.is_file():
            raise InputError("is not the package of a run: it has no manifest.json", where=str(archive))
        manifest = load_model(package.manifest, Manifest)
        if manifest.format != FORMAT:
            raise InputError(
                f"has format {manifest.format}, and this AutoQEC reads {FORMAT}", where=str(archive)
            )
        _check_hashes(package, manifest, archive)
        git = Git(Path(scratch) / "repository")
        git.root.mkdir()
        git.initialise()
        _fetch(git, package, manifest, archive)
        yield package, manifest, git


def _check_hashes(package: PackageDir, manifest: Manifest, archive: Path) -> None:
    found = {path.relative_to(package.path).as_posix() for path in package.path.rglob("*") if path.is_file()}
    found.discard(package.manifest.name)
    if odd := sorted(found ^ manifest.files.keys()):
        raise InputError(f"its files are not those of its manifest: {', '.join(odd[:5])}", where=str(archive))
    bad = [name for name, digest in manifest.files.items() if sha256_file(package.path / name) != digest]
    if bad:
        raise InputError(f"files differ from their hashes: {', '.join(bad[:5])}", where=str(archive))


def _fetch(git: Git, package: PackageDir, manifest: Manifest, archive: Path) -> None:
    try:
        git("bundle", "verify", "--quiet", str(package.bundle.resolve()))
        git("fetch", "--quiet", "--no-tags", str(package.bundle.resolve()), "refs/*:refs/*")
    except GitError as error:
        raise InputError(
            f"its git bundle is damaged: {error.stderr.strip()[:200]}", where=str(archive)
        ) from error
    if git.refs("refs/") != manifest.refs:
        raise InputError("its branches are not those of its manifest", where=str(archive))


def _environment(package: PackageDir, manifest: Manifest) -> Environment:
    inside = package.env / manifest.env
    env = load_env(inside if inside.is_file() else manifest.env)
    if env.content_hash != manifest.env_hash:
        raise InputError(
            f"{manifest.env} is another environment here than the package's",
            where="env",
            hint=f"use AutoQEC {manifest.autoqec_version}",
        )
    return env


def _problems(run: RunDir, git: Git, row: Row, manifest: Manifest) -> list[str]:
    """In what row, branch, pointer and artifacts of a round disagree."""
    name = parse_branch(row["branch"])
    files = run.round(row["round"])
    tip = manifest.refs.get(f"refs/heads/{name.branch}")
    if tip is None:
        return ["its branch is not in the package"]
    if git.resolve(row["commit_sha"]) is None or not git.is_ancestor(row["commit_sha"], tip):
        return [f"commit {row['commit_sha'][:12]} is not on its branch"]
    committed = git.file_at(tip, ExperimentDir("").record(name.run_id, name.round).pointer.as_posix())
    if committed is None or not files.pointer.is_file() or committed != files.pointer.read_bytes():
        return ["the pointer on the branch is not the one beside the artifacts"]
    try:
        pointer = read_pointer(committed, where=name.branch)
        config = canonical_hash(committed_config(git, name, pointer.commit_sha))
    except AutoQECError as error:
        return [str(error)]
    found = []
    digest = sha256_file(files.checkpoint) if files.checkpoint.is_file() else None
    for is_so, problem in (
        (pointer.commit_sha == row["commit_sha"], "the pointer names another commit"),
        (pointer.round_attempt_id == row["round_attempt_id"], "the pointer names another attempt"),
        (
            row["status"] != "ok" or pointer.provenance.checkpoint_sha256 == digest,
            "the checkpoint is another one",
        ),
        (pointer.provenance.dsl_config_sha256 == config, "the committed config is another one"),
        (pointer.provenance.train_seed == row["train_seed"], "the training seed is another one"),
        (git.is_ancestor(manifest.base_commit, row["commit_sha"]), "it does not descend from the run's base"),
    ):
        if not is_so:
            found.append(problem)
    return found


def _verdict(report: Path) -> str | None:
    return load_model(report, VerifyReport).verdict if report.is_file() else None


def _verify_again(
    check: RoundCheck, run: RunDir, env: Environment, git: Git, manifest: Manifest, options: VerifyOptions
) -> None:
    chosen = replace(options, repo=git.root, base=manifest.base_commit)
    try:
        report = verify(run.round(check.round).path, env, chosen)
        check.now, check.note = report.verdict, report.notes
    except AutoQECError as error:
        check.problems.append(str(error))
